/* table -- tests the parts of rf-dump: text that is safe to show, columns and conditions, the choice of rows.
 * Prints TAP. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "base/rng.h"
#include "dump/table.h"
#include "dump/topn.h"
#include "unit/tap.h"

static bool is(const struct rf_buf *b, const char *want)
{
	bool same = b->n == strlen(want) && !memcmp(b->p, want, b->n);

	if (!same)
		printf("# got  '%.*s'\n# want '%s'\n", (int)b->n, (char *)b->p, want);
	return same;
}

/* Checks lines of messages: a backslash stays as it is, and bytes that are not a character are shown as
 * hex. */
static void test_line(void)
{
	static const struct {
		const char *in;
		size_t n;
		const char *out;
	} c[] = {
		{ "plain \\x1b ~", 12, "plain \\x1b ~" },
		{ "a\tb\nc\rd\0", 8, "a\\tb\\nc\\rd\\x00" },
		{ "\033[2J\177", 5, "\\x1b[2J\\x7f" },
		{ "\xc3\xb6\xc2\x9b\xe2\x81\xa6", 7, "\xc3\xb6\\u009b\\u2066" },
		{ "\xf3\xa0\x81\x81", 4, "\\U000e0041" },
		{ "a\xff\xe2\x80", 4, "a\\xff\\xe2\\x80" },
	};
	static const char odd[] = "a\xc3\xb6\033\xe2\x80\xae\xff\n.";
	static const char shown[] = "a\xc3\xb6\\x1b\\u202e\\xff\\n.";
	bool good = true, cut = true;
	char to[64];

	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		good &= rf_print_line(to, sizeof to, c[i].in, c[i].n) == strlen(c[i].out) &&
		        !strcmp(to, c[i].out);
	ok(good, "lines of messages");
	for (size_t size = sizeof "..."; size <= strlen(shown) + 1; size++) {
		const size_t n = rf_print_line(to, size, odd, strlen(odd));
		const bool whole = size > strlen(shown);

		cut &= n < size && n == strlen(to) && !strcmp(to + n - (whole ? 0 : 3), whole ? "" : "...") &&
		       !strncmp(to, shown, whole ? n : n - 3) &&
		       (whole || !strchr("\\xu0128", n > 3 ? to[n - 4] : 'a'));
	}
	ok(cut, "a line that does not fit ends after a whole character");
}

/* ---- text that is safe to show ------------------------------------------------------------- */

static void test_safe(void)
{
	static const struct {
		const char *in;
		size_t n;
		const char *out;
	} c[] = {
		{ "plain ~", 7, "plain ~" },
		{ "a\tb\nc\rd\\e", 9, "a\\tb\\nc\\rd\\\\e" },
		{ "\033[2J\007\0\177", 7, "\\x1b[2J\\x07\\x00\\x7f" },
		{ "\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80" },
		/* CSI in one character */
		{ "\xc2\x9b"
		  "31m",
		  5, "\\u009b31m" },
		/* turns the direction */
		{ "\xe2\x80\xae"
		  "abc",
		  6, "\\u202eabc" },
		{ "\xf3\xa0\x81\x81", 4, "\\U000e0041" }, /* a tag */
		{ "\xff", 1, "\xef\xbf\xbd" },
		{ "\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd" },                 /* overlong */
		{ "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* a surrogate */
		/* beyond 10FFFF */
		{ "\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		/* a maximal part is one */
		{ "\xe2\x82"
		  "a",
		  3,
		  "\xef\xbf\xbd"
		  "a" },
		{ "\xf0\x9f\x98", 3, "\xef\xbf\xbd" },
		{ "\x80\xc3", 2, "\xef\xbf\xbd\xef\xbf\xbd" },
	};
	struct rf_buf b = { 0 };

	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		rf_print_clear(&b);
		rf_print_safe(&b, c[i].in, c[i].n, false);
		ok(is(&b, c[i].out), "safe text, case %zu", i);
	}
	rf_print_clear(&b);
	rf_print_safe(&b, "say \"a\"", 7, true);
	ok(is(&b, "say \\\"a\\\""), "safe text in quotes");
	rf_buf_free(&b);
}

/* Checks that any bytes become printable text without control characters, which is the same when it is made
 * safe again. */
static void test_safe_any(void)
{
	bool good = true, again = true;

	for (uint32_t seed = 0; seed < 20000; seed++) {
		struct rf_buf b = { 0 }, twice = { 0 };
		unsigned char in[12];

		for (uint32_t i = 0; i < sizeof in; i++) {
			in[i] = (unsigned char)(rf_draw(seed, i) * 256);
			if (seed % 2 && in[i] >= 0x80) /* more of what nearly is UTF-8 */
				in[i] = i % 4 ? 0x80 | (in[i] & 0x3F) : 0xE0 | (in[i] & 0x1F);
			if (in[i] == '\\')
				in[i] = '/';
		}
		rf_print_safe(&b, in, sizeof in, false);
		for (size_t i = 0; i < b.n; i++)
			good &= b.p[i] >= 0x20 && b.p[i] != 0x7F &&
			        !(b.p[i] == 0xC2 && i + 1 < b.n && b.p[i + 1] < 0xA0);
		for (size_t i = 0; i < b.n; i++)
			if (b.p[i] == '\\')
				b.p[i] = '/';
		rf_print_safe(&twice, b.p, b.n, false);
		again &= twice.n == b.n && !memcmp(twice.p, b.p, b.n);
		for (int w = 0; w <= rf_columns(b.p, b.n); w++) {
			size_t head = rf_columns_head(b.p, b.n, w), tail = rf_columns_tail(b.p, b.n, w);
			good &= rf_columns(b.p, head) <= w && rf_columns(b.p + b.n - tail, tail) <= w;
		}
		good &= rf_columns_head(b.p, b.n, 1000) == b.n && rf_columns_tail(b.p, b.n, 1000) == b.n;
		rf_buf_free(&b);
		rf_buf_free(&twice);
	}
	ok(good, "20000 random strings become printable, and fit where they are cut");
	ok(again, "the result is UTF-8 that is unchanged when it is made safe again");
}

static void test_columns(void)
{
	ok(rf_columns("abc", 3) == 3 && rf_columns("\xc3\xb6", 2) == 1, "columns of letters");
	ok(rf_columns("\xe4\xbd\xa0\xe5\xa5\xbd", 6) == 4, "columns of wide characters");
	ok(rf_columns("e\xcc\x81", 3) == 1, "columns of a mark over a letter");
	ok(rf_columns("\xe0\xb8\x81\xe0\xb8\xb1", 6) == 1, "columns of a mark over a letter of Thai");
	ok(rf_columns("\xe2\x8c\x9a", 3) == 2, "columns of an emoji");
	ok(rf_columns("a\x01\xff", 3) == 3, "columns of bytes that are not a character");
	ok(rf_columns_head("\xe4\xbd\xa0\xe5\xa5\xbd", 6, 3) == 3 &&
	           rf_columns_tail("\xe4\xbd\xa0\xe5\xa5\xbd", 6, 3) == 3,
	   "a wide character is shown whole or not at all");
}

static void test_flow(void)
{
	struct rf_buf b = { 0 };
	struct rf_flow f;

	rf_flow_begin(&f, &b, "ab", 4, 12, 2);
	for (int i = 0; i < 6; i++)
		rf_flow_printf(&f, NULL, "%d%d", i, i);
	rf_flow_end(&f);
	ok(is(&b, "ab  00  11\n    22  33  ... and 2 more\n"),
	   "items flow over lines, and the number of omitted items is shown");
	rf_print_clear(&b);
	rf_flow_begin(&f, &b, "ab", 4, 12, 0);
	rf_flow_end(&f);
	ok(is(&b, "ab\n"), "a label without items");
	rf_buf_free(&b);
}

/* ---- rows, columns, conditions ------------------------------------------------------------- */

enum { T = 6, C = 2, N = 2, LEN = 2 };

static struct rf_record *example(void)
{
	static int32_t tokens[T] = { 10, 11, 12, 13, 14, 15 }, positions[C] = { 2, 5 };
	static int32_t drawn[C * N * LEN] = { 12, 1, 12, 13, 15, 2, 3, 4 };
	static float entropy[T] = { 0, 1, 2, 3, 4, 5 }, nll[T - 1] = { 1, 1, 1, 1, 2 };
	static float total[C * N] = { 0.5f, 1, -1, 0.25f };
	static float binary[C * N] = { 0.2f, 0.6f, 0.1f, 1 };
	static float logp[C * N * LEN] = { -1, -3, -2, -2, 0, -1, -5, -6 };
	static struct rf_record r;

	rf_record_init(&r);
	r.id = 18446744073709551615u;
	r.T = T;
	r.tokens = tokens;
	r.entropy = entropy;
	r.nll = nll;
	r.c = C;
	r.positions = positions;
	r.rollout.temperature = 1;
	r.rollout.n = N;
	r.rollout.k = LEN;
	r.rollout.tokens = drawn;
	r.rollout.logp = logp;
	r.reward.kind = "edit";
	r.reward.n = N;
	r.reward.total = total;
	r.reward.parts = 1;
	r.reward.part[0] = (struct rf_part){ "binary", binary };
	return &r;
}

static const struct rf_token_text numbers = { .context = 40 };

static void make_line(struct rf_buf *b, enum rf_row_kind rows, const char *names, struct rf_row *row,
                      uint64_t at)
{
	struct rf_table t;
	struct rf_err e;

	rf_print_clear(b);
	if (rf_table_open(&t, &(struct rf_table_spec){ .rows = rows, .columns = names }, &e) != RF_OK) {
		rf_print_text(b, e.msg);
		return;
	}
	rf_row_at(row, rows, at);
	rf_table_line(&t, &numbers, row, b);
}

static void test_rows(void)
{
	struct rf_record *rec = example();
	struct rf_buf b = { 0 };
	struct rf_row row;

	rf_row_of(&row, "x.rf", 3, rec);
	ok(rf_row_count(rec, RF_ROWS_RECORD) == 1 && rf_row_count(rec, RF_ROWS_POSITION) == C &&
	           rf_row_count(rec, RF_ROWS_ROLLOUT) == C * N && rf_row_count(rec, RF_ROWS_TOKEN) == T &&
	           rf_row_count(rec, RF_ROWS_AUTO) == C * N,
	   "rows of a record with rollouts");
	make_line(&b, RF_ROWS_ROLLOUT,
	          "file,record,id,position,s,t,entropy,nll,rollout,reward,reward_mean,logp", &row, 1);
	ok(is(&b, "x.rf\t3\t18446744073709551615\t0\t2\t1\t1\t1\t1\t1\t0.75\t-2\n"), "a rollout's columns");
	make_line(&b, RF_ROWS_ROLLOUT, "prefix,generated,truth", &row, 1);
	ok(is(&b, "10 11\t12 13\t12 13\n"), "a rollout's texts");
	make_line(&b, RF_ROWS_ROLLOUT, "position,s,entropy,nll,rollout,reward,binary,cosine,advantage,truth",
	          &row, 2);
	ok(is(&b, "1\t5\t4\t2\t0\t-1\t0.1\tNaN\tNaN\t15\n"),
	   "a rollout longer than the text, and parts that the record lacks");
	make_line(&b, RF_ROWS_RECORD, "T,n,k,entropy_mean,entropy_max,nll_mean,accuracy,prompt_len,source",
	          &row, 0);
	ok(is(&b, "6\t2\t2\t2.5\t5\t1.2\tNaN\tNaN\tNaN\n"), "a record's columns");
	make_line(&b, RF_ROWS_RECORD, "reward_mean,reward_min,reward_max", &row, 0);
	ok(is(&b, "0.1875\t-1\t1\n"), "a record's rewards");
	make_line(&b, RF_ROWS_TOKEN, "t,token,entropy,nll,chosen,text", &row, 5);
	ok(is(&b, "5\t15\t5\tNaN\t0\t15\n"), "the last token predicts nothing");
	make_line(&b, RF_ROWS_TOKEN, "t,chosen", &row, 4);
	ok(is(&b, "4\t1\n"), "a token where rollouts begin is chosen");

	rec->rollout.tokens = NULL;
	rec->reward.kind = NULL;
	rec->reward.total = NULL;
	rec->reward.parts = 0;
	ok(rf_row_count(rec, RF_ROWS_AUTO) == C && !rf_row_count(rec, RF_ROWS_ROLLOUT),
	   "rows of a record with positions");
	rf_row_of(&row, "x.rf", 3, rec);
	make_line(&b, RF_ROWS_AUTO, "position,rollout,k,reward,generated,truth", &row, 1);
	ok(is(&b, "1\tNaN\tNaN\tNaN\tNaN\t15\n"), "without rollouts their columns are NaN");
	rec->positions = NULL;
	rec->c = 0;
	rf_row_of(&row, "x.rf", 3, rec);
	make_line(&b, RF_ROWS_AUTO, "T,position,entropy,prefix", &row, 0);
	ok(is(&b, "6\tNaN\tNaN\tNaN\n") && rf_row_count(rec, RF_ROWS_AUTO) == 1,
	   "a record without positions is one row");
	make_line(&b, RF_ROWS_TOKEN, "chosen", &row, 0);
	ok(is(&b, "NaN\n"), "without positions nothing is chosen");
	rf_buf_free(&b);
}

static void test_where(void)
{
	/* clang-format off */
	static const struct { const char *where, *rows; } c[] = { /* which rollouts match */
		{ "reward<0.5", "..xx" }, { "reward<=0.5", "x.xx" }, { "reward>0.5", ".x.." },
		{ "reward>=0.5", "xx.." }, { "reward=1", ".x.." }, { "reward==1", ".x.." },
		{ "reward!=1", "x.xx" }, { "reward<-.5", "..x." }, { "reward<0.5,rollout=1", "...x" },
		{ "reward<0.5 and rollout=1", "...x" }, { " reward < 0.5  and  rollout = 1 ", "...x" },
		{ "reward>-2e0,reward<1e0", "x.xx" }, { "binary=0.2", "x..." }, { "binary<=0.1", "..x." },
		{ "binary>0.6", "...x" }, { "advantage<1", "...." }, { "advantage!=1", "...." },
		{ "position=1,k=2,T=6", "..xx" }, { "generated~\"12\"", "xx.." },
		{ "generated!~\"12\"", "..xx" }, { "generated=\"3 4\"", "...x" },
		{ "generated == \"12 13\" , k=2", ".x.." }, { "generated!=\"3 4\"", "xxx." },
		{ "generated~\"\" and rollout=1", ".x.x" }, { "generated~\"1\"\"\"", "...." },
		{ "prefix~\"10 11\",truth~\"12\"", "xx.." }, { "source~\"a\"", "...." },
		/* clang-format on */
		{ "source!~\"a\"", "...." },
	};
	static const char *const bad[] = {
		"",
		" ",
		"reward",
		"reward<",
		"reward<x",
		"<0.1",
		"reward<0.1,",
		"reward<0.1 and",
		"reward<0.1 or k=1",
		"reward<0.1 k=1",
		"reward<nan",
		"reward<inf",
		"reward~1",
		"reward=>1",
		"reward.<1",
		"source=1",
		"chosen=1",
		"source<1",
		"source~word",
		"source~\"a",
		"source~\"a\"\"",
		"source~",
		"source=\"a\" b",
		"reward~\"1\"",
		"reward!~\"1\"",
		"reward=\"1\"",
		"count>1",
		"reward<0.1,,k=1",
		",k=1",
		"reward<0.1and k=1",
		"k=1 andk=1",
	};
	struct rf_table t;
	struct rf_row row;
	struct rf_err e;

	rf_row_of(&row, "", 0, example());
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		bool good = rf_table_open(&t, &(struct rf_table_spec){ .where = c[i].where }, &e) == RF_OK;
		for (uint64_t j = 0; good && j < C * N; j++) {
			rf_row_at(&row, RF_ROWS_AUTO, j);
			good = rf_table_match(&t, &numbers, &row) == (c[i].rows[j] == 'x');
		}
		ok(good, "where '%s'", c[i].where);
		rf_table_close(&t);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(rf_table_open(&t, &(struct rf_table_spec){ .where = bad[i] }, &e) == RF_EUSAGE,
		   "where '%s' is refused: %s", bad[i], e.msg);
	ok(rf_table_open(&t, &(struct rf_table_spec){ .sort = "source" }, &e) == RF_EUSAGE &&
	           rf_table_open(&t, &(struct rf_table_spec){ .sort = "-" }, &e) == RF_EUSAGE &&
	           rf_table_open(&t, &(struct rf_table_spec){ .columns = "id,,k" }, &e) == RF_EUSAGE &&
	           rf_table_open(&t, &(struct rf_table_spec){ .columns = "id,bytes" }, &e) == RF_EUSAGE,
	   "unknown columns in --sort and --columns are refused");
}

/* Checks parts that a table learns from records: their columns, and the names that are mistakes. */
static void test_parts(void)
{
	static float brief[C * N] = { 0.5f, 2, 3, 4 }, nll[C * N] = { 7, 8, 9, 10 };
	struct rf_table_spec unasked = { .rows = RF_ROWS_ROLLOUT };
	struct rf_record *rec = example();
	struct rf_buf b = { 0 };
	struct rf_table t;
	struct rf_row row;
	struct rf_err e;

	rec->reward.parts = 3;
	rec->reward.part[1] = (struct rf_part){ "brief", brief };
	rec->reward.part[2] = (struct rf_part){ "nll", nll };
	rf_row_of(&row, "", 0, rec);
	make_line(&b, RF_ROWS_ROLLOUT, "nll,brief,reward.nll,reward.brief,reward.binary,binary,reward.none",
	          &row, 2);
	ok(is(&b, "2\t3\t9\t3\t0.1\t0.1\tNaN\n"), "columns of parts, by name and with the prefix reward.");

	rf_print_clear(&b);
	bool good = rf_table_open(&t, &unasked, &e) == RF_OK && rf_table_meet(&t, rec, &e) == RF_OK;
	rf_table_names(&t, &b);
	ok(good && is(&b, "id\tposition\ts\tentropy\trollout\tk\treward\tcosine\tbinary\tedit\tbrief\t"
	                  "reward.nll\tadvantage\tlogp\tsource\tprefix\tgenerated\ttruth\n"),
	   "by default the parts of the first record follow the known parts, and keep the names distinct");
	rf_print_clear(&b);
	rec->reward.part[1].name = "late";
	good = rf_table_meet(&t, rec, &e) == RF_OK;
	rf_row_at(&row, RF_ROWS_ROLLOUT, 0);
	rf_table_line(&t, &numbers, &row, &b);
	ok(good && strstr((char *)b.p, "\t0.5\tNaN\t0.2\tNaN\tNaN\t7\tNaN\t"),
	   "parts of later records get no columns");
	rec->reward.part[1].name = "brief";

	static const struct {
		const char *where, *rows;
	} c[] = {
		{ "brief<1", "x..." },       { "reward.brief<1", "x..." },
		{ "nll<2", "xx.." },         { "reward.nll<9", "xx.." },
		{ "reward.none<9", "...." }, { "brief>=2,reward.nll<10", ".xx." },
	};
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		good = rf_table_open(&t, &(struct rf_table_spec){ .where = c[i].where }, &e) == RF_OK &&
		       rf_table_meet(&t, rec, &e) == RF_OK && rf_table_end(&t, &e) == RF_OK;
		for (uint64_t j = 0; good && j < C * N; j++) {
			rf_row_at(&row, RF_ROWS_AUTO, j);
			good = rf_table_match(&t, &numbers, &row) == (c[i].rows[j] == 'x');
		}
		ok(good, "where '%s'", c[i].where);
	}

	static const struct rf_table_spec bad[] = {
		{ .where = "brif<1" },
		{ .columns = "id,brif" },
		{ .sort = "-brif" },
		{ .where = "k=1,brif=1" },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		good = rf_table_open(&t, &bad[i], &e) == RF_OK && rf_table_meet(&t, rec, &e) == RF_EUSAGE;
		ok(good && strstr(e.msg, ": unknown column 'brif'; the columns are file, record, ") &&
		           strstr(e.msg, ", reward, cosine, binary, edit, brief, reward.nll, advantage,") &&
		           strstr(e.msg, ", truth, length; if only other records have this part, use "
		                         "reward.brif"),
		   "%.60s", e.msg);
		rec->reward.kind = NULL;
		good = rf_table_open(&t, &bad[i], &e) == RF_OK && rf_table_meet(&t, rec, &e) == RF_OK;
		good = good && rf_table_end(&t, &e) == RF_EUSAGE;
		ok(good && strstr(e.msg, ", edit, advantage,"), "also if no record has rewards: %.60s",
		   e.msg);
		rec->reward.kind = "edit";
	}
	for (int i = 0; i < 2; i++) {
		struct rf_table_spec both = { .columns = i ? "brif,reward.brif" : "reward.brif,brif" };

		good = rf_table_open(&t, &both, &e) == RF_OK && rf_table_meet(&t, rec, &e) == RF_OK;
		ok(good && t.column[0] == t.column[1], "%s: known to be a part", both.columns);
	}
	rec->reward.part[1].name = "brif";
	good = rf_table_open(&t, &bad[1], &e) == RF_OK && rf_table_meet(&t, rec, &e) == RF_OK;
	rec->reward.part[1].name = "brief";
	ok(good && rf_table_meet(&t, rec, &e) == RF_OK && rf_table_end(&t, &e) == RF_OK,
	   "a part of the first record with rewards is known for all records");
	static const char *const never[] = {
		"",
		"a-b",
		"9z",
		"reward.",
		"reward.9z",
		"reward.a.b",
		"a.b",
		"mean",
		"chosen",
		"a_name_of_more_than_thirty_two_ch",
		"reward.a_name_of_more_than_thirty_two_ch",
	};
	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		ok(rf_table_open(&t, &(struct rf_table_spec){ .columns = never[i] }, &e) == RF_EUSAGE,
		   "neither a part nor a column: '%s'", never[i]);
	ok(rf_table_open(&t, &(struct rf_table_spec){ .rows = RF_ROWS_RECORD, .columns = "brief" }, &e) ==
	                   RF_EUSAGE &&
	           rf_table_open(&t,
	                         &(struct rf_table_spec){ .rows = RF_ROWS_TENSOR, .columns = "reward.brief" },
	                         &e) == RF_EUSAGE,
	   "only rollouts have parts");

	char many[RF_MAX_PARTS * 6 + 20] = "id";
	for (int i = 0; i < RF_MAX_PARTS; i++)
		snprintf(many + strlen(many), 8, ",p%d", 100 + i);
	ok(rf_table_open(&t, &(struct rf_table_spec){ .columns = many }, &e) == RF_OK, "64 parts");
	strcat(many, ",more");
	ok(rf_table_open(&t, &(struct rf_table_spec){ .columns = many }, &e) == RF_EUSAGE &&
	           !strcmp(e.msg, "--columns: more than 64 parts of the reward"),
	   "%s", e.msg);
	rf_buf_free(&b);
}

/* ---- the pick of rows ---------------------------------------------------------------------- */

static int by_sort(const void *a, const void *b)
{
	const struct rf_topn_key *x = a, *y = b;

	if (isnan(x->sort) != isnan(y->sort))
		return isnan(x->sort) ? 1 : -1;
	if (!isnan(x->sort) && x->sort != y->sort)
		return x->sort < y->sort ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int by_draw(const void *a, const void *b)
{
	const struct rf_topn_key *x = a, *y = b;

	return x->draw != y->draw ? x->draw < y->draw ? -1 : 1 : x->order < y->order ? -1 : 1;
}

static int by_order(const void *a, const void *b)
{
	const struct rf_topn_key *x = a, *y = b;

	return x->order < y->order ? -1 : 1;
}

/* Compares the choice of rows with sorting all rows. */
static void test_pick(void)
{
	enum { MOST = 200 };
	bool good = true, frugal = true;

	for (uint32_t seed = 0; seed < 3000; seed++) {
		struct rf_topn_key key[MOST];
		struct rf_topn_spec spec = {
			.sort = rf_draw(seed, 0) < 0.6,
			.sample = (uint64_t)(rf_draw(seed, 1) * 30),
			.first = (uint64_t)(rf_draw(seed, 2) * 20),
		};
		size_t n = (size_t)(rf_draw(seed, 3) * MOST), want = n;
		struct rf_topn p;

		if (!spec.sort && !spec.sample)
			spec.sort = true;
		rf_topn_begin(&p, &spec);
		for (size_t i = 0; i < n; i++) {
			struct rf_topn_row row = { .text = malloc(1) };
			uint32_t j = 4 + 2 * (uint32_t)i;

			key[i] = (struct rf_topn_key){ floor(rf_draw(seed, j) * 12),
				                       floor(rf_draw(seed, j + 1) * 50), i };
			if (key[i].sort == 3)
				key[i].sort = NAN;
			row.key = key[i];
			if (rf_topn_wants(&p, &key[i]))
				good &= rf_topn_take(&p, &row, NULL) == RF_OK;
			else
				free(row.text);
			frugal &= p.n <= (spec.sample ? spec.sample : spec.first ? spec.first : MOST);
		}
		rf_topn_end(&p);
		if (spec.sample) {
			qsort(key, n, sizeof *key, by_draw);
			want = n < spec.sample ? n : spec.sample;
		}
		qsort(key, want, sizeof *key, spec.sort ? by_sort : by_order);
		want = spec.first && want > spec.first ? spec.first : want;
		good &= p.n == want;
		for (size_t i = 0; i < want && good; i++)
			good &= p.row[i].key.order == key[i].order;
		rf_topn_free(&p);
	}
	ok(good, "3000 choices of rows are the same as after sorting all rows");
	ok(frugal, "no more rows are kept than can be shown");
}

static void test_print(void)
{
	struct rf_buf b = { 0 };
	char want[1003];

	memset(want, '7', 1000);
	memcpy(want + 1000, " 5", 3);
	rf_print(&b, "%.1000s %d", want, 5);
	ok(is(&b, want), "a text of any length is printed whole");
	rf_buf_free(&b);
}

int main(void)
{
	test_print();
	test_safe();
	test_safe_any();
	test_line();
	test_columns();
	test_flow();
	test_rows();
	test_where();
	test_parts();
	test_pick();
	return tap_end();
}
