/* cat_json.c -- reads the lines of rf-dump --json and writes their stream: rf-cat --json. */
#include <stdlib.h>

#include "base/ids.h"
#include "base/version.h"
#include "io/lines.h"
#include "stream/cat.h"
#include "stream/msg.h"
#include "stream/wire.h"

/* Checks a message beyond its form: a head must be valid, and a record must be valid and have a new id. */
static enum rf_code check_message(struct rf_head *head, struct rf_record *rec, struct rf_ids *ids,
                                  const void *msg, size_t n, struct rf_err *e)
{
	uint64_t before = 0;
	struct rf_msg m;
	enum rf_code rc = rf_msg_open(&m, msg, n, e);

	if (rc != RF_OK || m.type >= RF_MSG_END)
		return rc;
	if (m.type == RF_MSG_HEAD) {
		rf_head_free(head);
		return rf_head_decode(head, m.body, e);
	}
	rc = rf_record_decode(rec, m.body.p, (size_t)(m.body.end - m.body.p), head->vocab, e);
	if (rc == RF_OK && (rc = rf_ids_add(ids, rec->id, &before, e)) == RF_OK && before)
		rc = rf_fail(e, RF_EDATA, "id %llu occurs twice", (unsigned long long)rec->id);
	return rc;
}

static enum rf_code out_of_order(uint64_t found, uint64_t expected, struct rf_err *e)
{
	return rf_fail(e, RF_EDATA,
	               "found record %llu where record %llu was expected (--renumber assigns new numbers)",
	               (unsigned long long)found, (unsigned long long)expected);
}

/* Writes the next message, whose number must be *next.  With `renumber` it gets that number. */
static enum rf_code put_next(struct rf_out *out, uint64_t *next, bool renumber, const void *msg, size_t n,
                             struct rf_err *e)
{
	const uint64_t seq = *next;
	struct rf_end end = { seq - 1, 0 };
	struct rf_buf bytes = { 0 };
	msgpack_packer pk;
	struct rf_msg m;
	enum rf_code rc = rf_msg_open(&m, msg, n, e);

	if (rc != RF_OK)
		return rc;
	*next += m.type != RF_MSG_END;
	if (!renumber && m.seq != seq)
		return out_of_order(m.seq, seq, e);
	if (!renumber && m.type == RF_MSG_END && (rc = rf_end_decode(&end, m.body, e)) == RF_OK &&
	    end.count != seq - 1)
		rc = rf_fail(e, RF_EDATA,
		             "the end record counts %llu records, but there are %llu (--renumber counts "
		             "them again)",
		             (unsigned long long)end.count, (unsigned long long)seq - 1);
	if (rc != RF_OK || !renumber)
		return rc == RF_OK ? rf_put_message(out, msg, n, e) : rc;
	if (m.type == RF_MSG_END) {
		rf_end_encode(&bytes, seq, &end);
	} else {
		rf_pack_init(&pk, &bytes);
		msgpack_pack_array(&pk, 3);
		msgpack_pack_uint64(&pk, seq);
		rf_pack_text(&pk, rf_msg_types[m.type]);
		rf_buf_add(&bytes, m.body.p, (size_t)(m.body.end - m.body.p));
	}
	rc = bytes.failed ? rf_fail(e, RF_ENOMEM, "out of memory") : rf_put_message(out, bytes.p, bytes.n, e);
	rf_buf_free(&bytes);
	return rc;
}

/* Writes the head, with a stage whose note says that the stream was changed outside of rf-tools. */
static enum rf_code put_head(struct rf_out *out, uint64_t *next, bool renumber, struct rf_head *head,
                             struct rf_err *e)
{
	bool json = true;
	const char *note = "changed outside";
	const struct rf_opt options[] = {
		{ .name = "json", .kind = RF_OPT_FLAG, .to = &json },
		{ .name = "renumber", .kind = RF_OPT_FLAG, .to = &renumber },
		{ .name = "note", .kind = RF_OPT_TEXT, .to = &note },
	};
	struct rf_buf msg = { 0 };
	enum rf_code rc = rf_head_stage(head, "rf-cat", RF_VERSION, e);

	for (int i = 0; i < 3 && rc == RF_OK; i++)
		rc = rf_head_option(head, &options[i], e);
	if (rc != RF_OK)
		return rc;
	rf_head_encode(&msg, head);
	rc = msg.failed ? rf_fail(e, RF_ENOMEM, "out of memory")
	                : put_next(out, next, renumber, msg.p, msg.n, e);
	rf_buf_free(&msg);
	return rc;
}

/* Writes a message.  The head is written from `head`, which is already decoded. */
static enum rf_code put_head_or_record(struct rf_out *out, uint64_t *next, bool renumber,
                                       struct rf_head *head, const void *msg, size_t n, struct rf_err *e)
{
	struct rf_msg m;
	enum rf_code rc = rf_msg_open(&m, msg, n, e);

	if (rc != RF_OK || m.type != RF_MSG_HEAD || *next)
		return rc != RF_OK ? rc : put_next(out, next, renumber, msg, n, e);
	return !renumber && m.seq ? out_of_order(m.seq, 0, e) : put_head(out, next, renumber, head, e);
}

static enum rf_code copy_lines(struct rf_lines *lines, struct rf_out *out, const struct rf_cat_options *o,
                               struct rf_err *e)
{
	struct rf_head head;
	struct rf_record rec;
	struct rf_ids ids = { 0 };
	uint64_t seq = 0;
	enum rf_code rc;
	char *line;
	size_t n;

	rf_head_init(&head);
	rf_record_init(&rec);
	while ((rc = rf_lines_next_written(lines, &line, &n, e)) == RF_OK) {
		void *msg = NULL;
		size_t size;

		rec.T = 0; /* tells whether the line is a record */
		if ((rc = rf_msg_from_json(line, n, &msg, &size, e)) == RF_OK)
			rc = check_message(&head, &rec, &ids, msg, size, e);
		if (rc == RF_OK)
			rc = put_head_or_record(out, &seq, o->renumber, &head, msg, size, e);
		free(msg);
		if (rc != RF_OK) {
			if (rc == RF_EDATA)
				rf_lines_blame(lines, e);
			break;
		}
		if (rec.T) {
			rf_meter_read(o->meter, rf_lines_bytes(lines));
			rf_meter_done(o->meter, rec.T);
		}
	}
	rf_head_free(&head);
	rf_record_free(&rec);
	rf_ids_free(&ids);
	return rc;
}

enum rf_code rf_cat_json(const char *path, const char *to, const struct rf_cat_options *o, struct rf_err *e)
{
	struct rf_lines *lines;
	struct rf_out *out;
	enum rf_code rc = rf_lines_open(&lines, path, o->max_record, e);

	if (rc != RF_OK)
		return rc;
	rf_lines_advise(lines);
	if ((rc = rf_out_open_messages(&out, to, e)) == RF_OK) {
		if ((rc = copy_lines(lines, out, o, e)) == RF_EOF) {
			rc = rf_out_close_messages(out, e);
			if (rc == RF_EDATA)
				rf_fail(e, rc,
				        "%s: the end record is missing (the input is truncated, or its "
				        "writer died)",
				        rf_lines_name(lines));
		} else {
			rf_out_abandon(out);
		}
	}
	rf_lines_close(lines);
	return rc;
}
