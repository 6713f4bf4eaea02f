/* exchange.c -- exchanges between devices by their link, or else through host memory, one piece at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/exchange.h"

enum { PIECE = 1 << 22 }; /* numbers in one exchange through the hosts */
_Static_assert((int)RF_LINK_WHY <= (int)RF_RANKS_WHY, "room for a link's sentences");

/* ---- from device to device ----------------------------------------------------------------- */

/* A message of each rank about its device, before the devices are joined.  Rank 0 chooses the link's name. */
struct offer {
	bool can;
	unsigned char place[RF_LINK_PLACE], name[RF_LINK_NAME];
	char why[RF_LINK_WHY];
};

static void make_offer(const struct rf_exchange *x, struct offer *o)
{
	const struct rf_link *link = x->dev->ops->link;

	*o = (struct offer){ .why = "the device has no link to others (--device cuda has)" };
	o->can = link && link->can(x->dev, o->place, o->why) &&
	         (x->ranks->rank || link->name(x->dev, o->name, o->why));
}

/* Returns whether the devices can be joined, and if not, stores the reason in e.  All ranks get the same
 * result. */
static bool can_join(const struct offer *o, int ranks, struct rf_err *e)
{
	for (int i = 0; i < ranks; i++) {
		if (!o[i].can) {
			rf_fail(e, RF_EDEVICE, "--exchange nccl: rank %d: %s", i, o[i].why);
			return false;
		}
		for (int j = 0; j < i; j++)
			if (!memcmp(o[i].place, o[j].place, sizeof o->place)) {
				rf_fail(e, RF_EDEVICE,
				        "--exchange nccl: ranks %d and %d have the same GPU (rf-ranks(7) "
				        "gives each its own)",
				        j, i);
				return false;
			}
	}
	return true;
}

static bool has_ended(void *arg, bool *done, char *why)
{
	const struct rf_exchange *x = arg;

	return x->link->done(x->dev, done, why);
}

/* Waits for an exchange of the link.  begun: whether it could be begun; if not, `why` has the reason. */
static enum rf_code await_link(struct rf_exchange *x, bool begun, char *why, struct rf_err *e)
{
	const enum rf_code rc = rf_ranks_await(x->ranks, begun, has_ended, x, why, e);

	if (rc != RF_OK)
		rf_exchange_close(x);
	return rc == RF_OK ? rf_dev_sync(x->dev, e) : rc;
}

enum rf_code rf_exchange_open(struct rf_exchange *x, struct rf_err *e)
{
	const int ranks = x->ranks->ranks;
	struct offer own, *all;
	char why[RF_RANKS_WHY];
	enum rf_code rc;

	x->link = NULL;
	if (ranks == 1 || x->carrier == RF_CARRIER_HOST)
		return RF_OK;
	if (!(all = malloc((size_t)ranks * sizeof *all)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", ranks);
	make_offer(x, &own);
	if ((rc = rf_ranks_gather(x->ranks, &own, sizeof own, all, e)) == RF_OK) {
		if (can_join(all, ranks, e)) {
			x->link = x->dev->ops->link;
			rc = await_link(x, x->link->join(x->dev, all->name, x->ranks->rank, ranks, why), why,
			                e);
		} else if (x->carrier == RF_CARRIER_NCCL)
			rc = RF_EDEVICE;
	}
	free(all);
	return rc;
}

void rf_exchange_close(struct rf_exchange *x)
{
	if (x->link)
		x->link->leave(x->dev);
	x->link = NULL;
}

/* Lists where the part of each rank begins, and how many weights it has; *at is malloc'd, *n points into
 * it. */
static enum rf_code list_parts(const struct rf_exchange *x, size_t **at, size_t **n, struct rf_err *e)
{
	const int ranks = x->ranks->ranks;

	if (!(*at = malloc(2 * (size_t)ranks * sizeof **at)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", ranks);
	*n = *at + ranks;
	for (int i = 0; i < ranks; i++) {
		const struct rf_span part = rf_params_part(x->params, i, ranks);

		(*at)[i] = part.first;
		(*n)[i] = part.n;
	}
	return RF_OK;
}

/* Exchanges the sum, or the weights if w is not NULL, between the devices. */
static enum rf_code exchange_by_link(struct rf_exchange *x, rf_i64 sum, rf_f32 w, struct rf_err *e)
{
	const struct rf_link *link = x->link;
	size_t *at = NULL, *n = NULL;
	char why[RF_RANKS_WHY];
	enum rf_code rc = list_parts(x, &at, &n, e);

	if (rc == RF_OK)
		rc = await_link(x,
		                w          ? link->share(x->dev, w, at, n, why)
		                : x->parts ? link->sum_parts(x->dev, sum, at, n, why)
		                           : link->sum(x->dev, sum, x->params->total, why),
		                why, e);
	free(at);
	return rc;
}

/* ---- through the hosts --------------------------------------------------------------------- */

static struct rf_span part_of(const struct rf_exchange *x, int rank)
{
	return rf_params_part(x->params, rank, x->ranks->ranks);
}

/* Sets of[i] to the range of rank i's part that one piece covers: at most `most` numbers, beginning with
 * number `from` of the part.  n[i]: how many these are.  Returns the numbers of the whole piece. */
static size_t choose_piece(const struct rf_exchange *x, size_t from, size_t most, struct rf_span *of,
                           size_t *n)
{
	size_t all = 0;

	for (int i = 0; i < x->ranks->ranks; i++) {
		const struct rf_span part = part_of(x, i);

		of[i].first = part.first + from;
		of[i].n = from >= part.n ? 0 : part.n - from < most ? part.n - from : most;
		all += n[i] = of[i].n;
	}
	return all;
}

static enum rf_code sum_all(const struct rf_exchange *x, rf_i64 sum, int64_t *piece, struct rf_err *e)
{
	struct rf_dev *d = x->dev;
	enum rf_code rc = RF_OK;

	for (size_t at = 0; at < x->params->total && rc == RF_OK; at += PIECE) {
		const size_t n = x->params->total - at < PIECE ? x->params->total - at : PIECE;

		d->ops->download(d, piece, rf_at_i64(sum, at), n * sizeof *piece);
		if ((rc = rf_dev_sync(d, e)) == RF_OK && (rc = rf_ranks_sum(x->ranks, piece, n, e)) == RF_OK)
			d->ops->upload(d, rf_at_i64(sum, at), piece, n * sizeof *piece);
		rf_ranks_sign(x->ranks, "adds up");
	}
	return rc == RF_OK ? rf_dev_sync(d, e) : rc;
}

/* Host memory for an exchange in pieces.  piece, mine: the numbers of all ranks, and of this rank; of, n: as
 * in choose_piece(). */
struct room {
	void *piece, *mine;
	struct rf_span *of;
	size_t *n;
};

typedef enum rf_code piece_fn(const struct rf_exchange *x, void *all, const struct room *room,
                              struct rf_err *e);

/* Adds up one piece: this rank's part of it becomes the sum over all ranks. */
static enum rf_code sum_piece(const struct rf_exchange *x, void *sum, const struct room *room,
                              struct rf_err *e)
{
	const struct rf_span *own = &room->of[x->ranks->rank];
	struct rf_dev *d = x->dev;
	int64_t *to = room->piece;
	enum rf_code rc;

	for (int i = 0; i < x->ranks->ranks; to += room->n[i++])
		if (room->n[i])
			d->ops->download(d, to, rf_at_i64(sum, room->of[i].first), room->n[i] * sizeof *to);
	if ((rc = rf_dev_sync(d, e)) == RF_OK &&
	    (rc = rf_ranks_sum_parts(x->ranks, room->piece, room->n, room->mine, e)) == RF_OK && own->n)
		d->ops->upload(d, rf_at_i64(sum, own->first), room->mine, own->n * sizeof *to);
	return rc;
}

/* Gathers the weights of one piece from all ranks. */
static enum rf_code share_piece(const struct rf_exchange *x, void *w, const struct room *room,
                                struct rf_err *e)
{
	const struct rf_span *own = &room->of[x->ranks->rank];
	struct rf_dev *d = x->dev;
	float *from = room->piece;
	enum rf_code rc;

	if (own->n)
		d->ops->download(d, room->mine, rf_at(w, own->first), own->n * sizeof *from);
	for (int i = 0; i < x->ranks->ranks; i++)
		room->n[i] *= sizeof *from;
	if ((rc = rf_dev_sync(d, e)) == RF_OK)
		rc = rf_ranks_gather_parts(x->ranks, room->mine, room->n, room->piece, e);
	for (int i = 0; rc == RF_OK && i < x->ranks->ranks; from += room->of[i++].n)
		if (i != x->ranks->rank && room->of[i].n)
			d->ops->upload(d, rf_at(w, room->of[i].first), from, room->of[i].n * sizeof *from);
	return rc;
}

/* Exchanges the parts of all ranks, one piece after the other. */
static enum rf_code exchange_pieces(const struct rf_exchange *x, void *all, const struct room *room,
                                    piece_fn *exchange_piece, const char *doing, struct rf_err *e)
{
	const size_t most = PIECE / (size_t)x->ranks->ranks;
	enum rf_code rc = RF_OK;

	for (size_t from = 0; rc == RF_OK && choose_piece(x, from, most, room->of, room->n); from += most) {
		rc = exchange_piece(x, all, room, e);
		rf_ranks_sign(x->ranks, doing);
	}
	return rc == RF_OK ? rf_dev_sync(x->dev, e) : rc;
}

static enum rf_code allocate_room(const struct rf_exchange *x, size_t size, struct room *room,
                                  struct rf_err *e)
{
	const size_t ranks = (size_t)x->ranks->ranks;

	*room = (struct room){ malloc(PIECE * size), malloc(PIECE / ranks * size + 1),
		               calloc(ranks, sizeof *room->of), calloc(ranks, sizeof *room->n) };
	return room->piece && room->mine && room->of && room->n
	               ? RF_OK
	               : rf_fail(e, RF_ENOMEM, "out of memory (%d numbers to exchange)", PIECE);
}

/* Exchanges the sum, or the weights if w is not NULL, through host memory. */
static enum rf_code exchange_by_hosts(const struct rf_exchange *x, rf_i64 sum, rf_f32 w, struct rf_err *e)
{
	struct room room;
	enum rf_code rc = allocate_room(x, w ? sizeof(float) : sizeof(int64_t), &room, e);

	if (rc == RF_OK)
		rc = w          ? exchange_pieces(x, w, &room, share_piece, "shares weights", e)
		     : x->parts ? exchange_pieces(x, sum, &room, sum_piece, "adds up", e)
		                : sum_all(x, sum, room.piece, e);
	free(room.piece);
	free(room.mine);
	free(room.of);
	free(room.n);
	return rc;
}

/* ---- the exchanges ------------------------------------------------------------------------- */

static enum rf_code exchange_any(struct rf_exchange *x, rf_i64 sum, rf_f32 w, struct rf_err *e)
{
	const enum rf_code rc = x->link ? exchange_by_link(x, sum, w, e) : exchange_by_hosts(x, sum, w, e);

	if (rc != RF_OK)
		x->ranks->parted = true;
	return rc;
}

enum rf_code rf_exchange_sum(struct rf_exchange *x, rf_i64 sum, struct rf_err *e)
{
	return x->ranks->ranks == 1 ? RF_OK : exchange_any(x, sum, NULL, e);
}

enum rf_code rf_exchange_weights(struct rf_exchange *x, rf_f32 w, struct rf_err *e)
{
	return x->ranks->ranks == 1 || !x->parts ? RF_OK : exchange_any(x, NULL, w, e);
}

enum rf_code rf_exchange_tiles(const struct rf_exchange *x, const double *mine, double *out, struct rf_err *e)
{
	const size_t all = (x->params->total + RF_DOT_TILE - 1) / RF_DOT_TILE;
	size_t *bytes = calloc((size_t)x->ranks->ranks, sizeof *bytes);
	enum rf_code rc = RF_OK;

	if (x->ranks->ranks == 1 || !x->parts)
		memcpy(out, mine, all * sizeof *out);
	else if (!bytes)
		rc = rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", x->ranks->ranks);
	else {
		for (int i = 0; i < x->ranks->ranks; i++)
			bytes[i] = (part_of(x, i).n + RF_DOT_TILE - 1) / RF_DOT_TILE * sizeof *out;
		rc = rf_ranks_gather_parts(x->ranks, mine, bytes, out, e);
	}
	free(bytes);
	if (rc != RF_OK)
		x->ranks->parted = true;
	return rc;
}
