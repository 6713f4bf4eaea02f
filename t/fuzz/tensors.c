/* tensors -- feeds any bytes to the reader of safetensors files.  The tensors of a file that is accepted
 * fill its buffer without gaps, are in order of their names, and every value can be read. */

#include "ckpt/tensors.h"
#include "fuzz/fuzz.h"

static void check_tensor(const struct rf_tensor *t, const uint8_t *data, size_t size)
{
	uint64_t count = 1;
	struct rf_err e;
	float *x;

	for (int d = 0; d < t->ndim; d++)
		count *= (uint64_t)t->shape[d];
	insist(t->ndim >= 0 && t->ndim <= RF_MAX_DIMS && count == t->count &&
	               (t->dtype == RF_OTHER || t->bytes == count * (unsigned)rf_dtype_size(t->dtype)),
	       "the sizes of a tensor disagree");
	insist((const uint8_t *)t->data >= data + 8 && t->bytes <= size &&
	               (const uint8_t *)t->data + t->bytes <= data + size,
	       "a tensor outside the buffer");
	if (t->dtype == RF_OTHER) { /* the number of bytes need not fit the number of elements */
		insist(rf_tensor_f32_part(t, 0, 0, NULL, &e) == RF_EMODEL, "an unknown type is read");
		return;
	}
	if (!(x = malloc(count * sizeof *x + 1)))
		abort();
	if (rf_tensor_f32_part(t, 0, count, x, &e) != RF_OK)
		insist(e.code == RF_EMODEL && t->dtype != RF_F32 && t->dtype != RF_F16 &&
		               t->dtype != RF_BF16 && t->dtype != RF_F64,
		       "a known type is not read");
	free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rf_tensors t;
	struct rf_err e = { RF_OK, "" };
	uint64_t bytes = 0;
	char hex[17];

	if (rf_tensors_parse(&t, data, size, &e) != RF_OK) {
		insist(e.code == RF_EMODEL && *e.msg && !t.t && !t.impl, "refused without a reason");
		return 0;
	}
	for (int i = 0; i < t.n; i++) {
		insist(i == 0 || strcmp(t.t[i - 1].name, t.t[i].name) < 0,
		       "the tensors are not in order of their names");
		insist(rf_tensors_find(&t, t.t[i].name) == &t.t[i], "a tensor is not found");
		check_tensor(&t.t[i], data, size);
		bytes += t.t[i].bytes;
	}
	uint64_t header = 0;
	for (int i = 7; i >= 0; i--)
		header = header << 8 | data[i];
	insist(8 + header + bytes == size, "the tensors do not tile the buffer");
	insist(rf_tensors_hash(t.t, t.n, NULL, hex, &e) == RF_OK && strlen(hex) == 16,
	       "the tensors have no hash");
	rf_tensors_meta(&t, "format");
	rf_tensors_close(&t);
	return 0;
}
