// sentencepiece.cc -- C++ out of which nothing is thrown.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <sentencepiece_processor.h>

#include "tokenizer/sentencepiece.h"

namespace
{
struct processor : rf_sentencepiece {
	sentencepiece::SentencePieceProcessor sp;
};

const sentencepiece::SentencePieceProcessor &of(const rf_sentencepiece *p)
{
	return static_cast<const processor *>(p)->sp;
}

// The library does not show the setting add_dummy_prefix, but a text without a blank shows its effect.
bool adds_blank(const sentencepiece::SentencePieceProcessor &sp)
{
	std::vector<std::string> pieces;

	if (!sp.Encode("a", &pieces).ok())
		return false;
	for (const std::string &piece : pieces)
		if (piece.find("\xE2\x96\x81") != std::string::npos)
			return true;
	return false;
}
} // namespace

rf_sentencepiece *rf_sentencepiece_open(const void *model, size_t n, char *why, size_t size)
{
	processor *p = nullptr;

	*why = 0;
	try {
		p = new processor;
		p->sp.SetEncodeExtraOptions(""); // no <s>, whatever the model says
		const sentencepiece::util::Status status =
			p->sp.LoadFromSerializedProto(absl::string_view(static_cast<const char *>(model), n));
		if (status.ok() && p->sp.GetPieceSize() > 0) {
			p->vocab = p->sp.GetPieceSize();
			p->bos = p->sp.bos_id();
			p->eos = p->sp.eos_id();
			p->prefix_space = adds_blank(p->sp);
			return p;
		}
		std::snprintf(why, size, "%s",
		              status.ok() ? "it has no pieces" : "libsentencepiece cannot read it");
	} catch (const std::bad_alloc &) {
	} catch (...) {
		std::snprintf(why, size, "libsentencepiece cannot read it");
	}
	delete p;
	return nullptr;
}

void rf_sentencepiece_close(rf_sentencepiece *p) { delete static_cast<processor *>(p); }

int32_t *rf_sentencepiece_encode(const rf_sentencepiece *p, const char *text, size_t n, size_t *count)
{
	try {
		std::vector<int> ids;

		if (!of(p).Encode(absl::string_view(text, n), &ids).ok())
			return nullptr;
		int32_t *out = static_cast<int32_t *>(std::malloc((ids.size() + 1) * sizeof(int32_t)));
		for (size_t i = 0; out && i < ids.size(); i++)
			out[i] = ids[i];
		*count = ids.size();
		return out;
	} catch (...) {
		return nullptr;
	}
}

char *rf_sentencepiece_decode(const rf_sentencepiece *p, const int32_t *ids, size_t count, size_t *n)
{
	try {
		std::string text;

		if (!of(p).Decode(std::vector<int>(ids, ids + count), &text).ok())
			return nullptr;
		char *out = static_cast<char *>(std::malloc(text.size() + 1));
		if (out)
			std::memcpy(out, text.c_str(), text.size() + 1);
		*n = text.size();
		return out;
	} catch (...) {
		return nullptr;
	}
}

const char *rf_sentencepiece_control(const rf_sentencepiece *p, int32_t id)
{
	return of(p).IsControl(id) ? of(p).IdToPiece(id).c_str() : nullptr;
}

int rf_sentencepiece_id(const rf_sentencepiece *p, const char *name, size_t n)
{
	try {
		const absl::string_view piece(name, n);
		const int id = of(p).PieceToId(piece); // an unknown piece gets the id of <unk>

		return of(p).IdToPiece(id) == piece ? id : -1;
	} catch (...) {
		return -1;
	}
}

bool rf_sentencepiece_special(const rf_sentencepiece *p, int32_t id)
{
	return of(p).IsControl(id) || of(p).IsUnknown(id);
}

int rf_sentencepiece_byte(const rf_sentencepiece *p, int32_t id)
{
	if (!of(p).IsByte(id))
		return -1;
	return static_cast<int>(std::strtol(of(p).IdToPiece(id).c_str() + 1, nullptr, 16));
}
