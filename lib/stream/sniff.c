/* sniff.c -- tells a user who piped the wrong input into a program what that input looks like.  Common
 * formats are recognized by their magic numbers, text by its characters. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "io/magic.h"
#include "stream/pack.h"
#include "stream/sniff.h"

static const struct {
	const char *magic;
	size_t n;
	const char *name;
} kinds[] = {
	{ "PK\x03\x04", 4, "zip, or a PyTorch file" },
	{ "\x7f"
	  "ELF",
	  4, "a program" },
	{ "\x89PNG", 4, "PNG" },
	{ "\xff\xd8\xff", 3, "JPEG" },
	{ "%PDF", 4, "PDF" },
	{ "PAR1", 4, "Parquet" },
	{ "\x93NUMPY", 6, "NumPy" },
	{ "\x89HDF", 4, "HDF5" },
	{ "GGUF", 4, "GGUF" },
	{ "SQLite", 6, "SQLite" },
	{ "Rar!", 4, "rar" },
	{ "7z\xbc\xaf", 4, "7z" },
	{ "\x80\x02", 2, "a Python pickle" },
	{ "\x80\x04", 2, "a Python pickle" },
	{ "\x80\x05", 2, "a Python pickle" },
	{ "ARROW1", 6, "Arrow" },
};

/* Returns whether the first bytes are text: UTF-8 without control characters.  The last character may be
 * cut. */
static bool is_text(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((p[i] < 32 && !strchr("\t\n\f\r", p[i])) || p[i] == 0 || p[i] == 127)
			return false;
	for (size_t cut = 0; cut < 4 && cut < n; cut++)
		if (rf_utf8(p, n - cut))
			return true;
	return false;
}

const char *rf_sniff(char *buf, size_t size, const void *data, size_t n)
{
	const unsigned char *p = data;
	const char *like;
	size_t blank = 0;
	char quoted[40];

	n = n < RF_SNIFF ? n : RF_SNIFF;
	if (n >= 4 && rf_magic_zstd(p))
		return NULL;
	if (n < 4 && !memcmp(p, "\x28\xb5\x2f\xfd", n))
		return NULL;
	like = rf_magic_packed(p, n);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !like; i++)
		if (n >= kinds[i].n && !memcmp(p, kinds[i].magic, kinds[i].n))
			like = kinds[i].name;
	if (like) {
		snprintf(buf, size, "it begins with %02x %02x, like %s", p[0], p[1], like);
	} else if (n > 9 && p[8] == '{' && !p[6] && !p[7]) {
		snprintf(buf, size, "it looks like safetensors");
	} else if (is_text(p, n)) {
		while (blank < n && strchr(" \t\r\n", p[blank]))
			blank++;
		rf_quote(quoted, 32, p, n);
		if (blank < n && (p[blank] == '{' || p[blank] == '['))
			snprintf(buf, size,
			         "it looks like JSON: '%s' (rf-cat --json reads what rf-dump --json "
			         "printed, rf-tokenize reads text)",
			         quoted);
		else
			snprintf(buf, size, "it looks like text: '%s' (rf-tokenize reads text)", quoted);
	} else if (n > 2 && p[0] == 0x93 && p[1] == 0 && p[2] >> 5 == 5) {
		snprintf(buf, size,
		         "it looks like the msgpack of a decompressed rf stream: use the compressed one");
	} else if ((p[0] >= 0x80 && p[0] < 0xa0) || (p[0] >= 0xdc && p[0] < 0xe0)) {
		snprintf(buf, size, "it looks like msgpack without zstd frames");
	} else {
		snprintf(buf, size, "it begins with %02x %02x %02x %02x", p[0], n > 1 ? p[1] : 0,
		         n > 2 ? p[2] : 0, n > 3 ? p[3] : 0);
	}
	return buf;
}
