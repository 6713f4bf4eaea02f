/* rules -- tests the rules that a record, a head and a message must keep.  Each rule of rf-stream(5) is
 * broken alone, with right checksums, and the error must name the key.  The checker is compared with
 * msgpack-c on half a million damaged messages.  Reading and writing again must change nothing.  Prints
 * TAP. */
#include <math.h>
#include <msgpack.h>
#include <sys/resource.h>

#include "unit/streams.h"
#include "unit/tap.h"

/* ---- records that break one rule ----------------------------------------------------------- */

#define ARRAY(dtype, shape, data) "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data\":[" data "]}"

/* the value of a part in the map of parts */
#define PART             ARRAY("<f4", "2,1", "-0.25,1")
#define TWO              ARRAY("<f4", "2,1", "0.5,1")
#define FOUR             ARRAY("<f4", "2,2", "1,2,3,4")
#define LONG             "\"B_is_a_name_that_has_32_letters_\":"
#define BYTES(base64)    "{\"dtype\":\"<f4\",\"shape\":[2,1],\"data\":{\"base64\":\"" base64 "\"}}"
#define Z9(part)         "\"z9\":" PART ",", "\"z9\":" part ","
#define WRITTEN(tokens)  ARRAY("<i4", "2,3", tokens)
#define LENGTHS(two)     ARRAY("<i4", "2", two)
#define PER_TOKEN(shape) ARRAY("<f4", shape, "5,6,7,8")
#define REFERENCE(shape) ARRAY("<f4", shape, "-9,-8,-7,-6")
#define KEPT(shares)     ARRAY("<f4", "2,1,2", shares)
#define KEPT_BYTES(data) "{\"dtype\":\"<f4\",\"shape\":[2,1,2],\"data\":{\"base64\":\"" data "\"}}"
#define CHOSEN(length)   ARRAY("<i4", "3", length)
#define NAMED(name)      "\"z9\":", "\"" name "\":"
#define NO_NAME(shown) \
	"reward.parts: '" shown "' is not a name of up to 32 letters, digits and '_' that begins with a " \
	"letter"

/* clang-format off */
static const char good_record[] =
	"{\"seq\":1,\"type\":\"seq\",\"body\":{\"id\":5,\"tokens\":" ARRAY("<i4", "6", "1,2,3,4,5,9")
	",\"prompt_len\":2,\"answers\":[\"a\",\"b\"],\"source\":\"s\",\"meta\":{\"m\":1}"
	",\"entropy\":" ARRAY("<f4", "6", "1,1,1,1,1,1.5") ",\"nll\":" ARRAY("<f4", "5", "1,2,3,4,5")
	        ",\"correct\":" ARRAY("<f4", "5", "1,0,1,0,1")
	",\"hidden\":" ARRAY("<f4", "6,1", "1,2,3,4,5,6")
	        ",\"logits\":" ARRAY("<f4", "6,2", "1,2,3,4,5,6,7,8,9,10,11,12")
	",\"positions\":" ARRAY("<i4", "2", "1,3")
	",\"rollout\":{\"temperature\":0.5,\"tokens\":" ARRAY("<i4", "2,1,2", "1,2,3,4")
	        ",\"length\":" ARRAY("<i4", "2,1", "2,1")
	        ",\"logp\":" ARRAY("<f4", "2,1,2", "-1,-2,-3,-4")
	        ",\"logp_ref\":" REFERENCE("2,1,2") ",\"kept\":" KEPT("0.5,0,1,0.25")
	",\"h_pred\":" ARRAY("<f4", "2,1,2,1", "1,2,3,4") ",\"h_gt\":" ARRAY("<f4", "2,2,1", "1,2,3,4") "}"
	",\"reward\":{\"kind\":\"edit\",\"total\":" TWO ",\"edit\":" TWO
	",\"parts\":{\"z9\":" PART "," LONG PART "},\"per_token\":" PER_TOKEN("2,1,2") "}"
	",\"advantage\":" ARRAY("<f4", "2,1", "-1,1")
	",\"generation\":{\"temperature\":0.0,\"tokens\":" WRITTEN("3,1,1,4,5,6")
	        ",\"length\":" LENGTHS("2,3") ",\"stop\":[\"eos\",\"length\"],\"text\":[\"x\",\"\"]}"
	",\"choice\":{\"tokens\":" ARRAY("<i4", "3,2", "7,8,9,0,6,5") ",\"length\":" CHOSEN("2,1,2")
	        ",\"from\":" CHOSEN("1,0,1") ",\"logp\":" ARRAY("<f4", "3", "-1,-2.5,0")
	        ",\"greedy\":" CHOSEN("0,0,1") "}"
	",\"other\":{\"x\":[1,{\"y\":\"z\"}]}}}";
/* clang-format on */

static const struct {
	const char *from, *to, *words;
} broken[] = {
	{ "\"id\":5", "\"id\":-1", "id is not" },
	{ "\"id\":5", "\"id\":\"x\"", "id is not" },
	{ "\"id\":5", "\"id\":5.0", "id is not" },
	{ "\"id\":5", "\"id\":null", "'id' is nil" },
	{ "\"id\":5", "\"Id\":5", "no 'id'" },
	{ "\"tokens\":" ARRAY("<i4", "6", "1,2,3,4,5,9") ",", "", "no 'tokens'" },
	{ "5,9]", "5,10]", "tokens: number 5 is 10, outside 0 to 9" },
	{ "[1,2,3,4,5,9]", "[-1,2,3,4,5,9]", "tokens: number 0 is -1" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), ARRAY("<i4", "0", ""), "tokens is empty" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), ARRAY("<i4", "2,3", "1,2,3,4,5,9"),
	  "tokens does not have 1 dimension" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), ARRAY("<i4", "5", "1,2,3,4,5"),
	  "entropy has the shape (6) where (5) was expected" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), ARRAY("<f4", "6", "1,2,3,4,5,9"),
	  "tokens does not have the dtype <i4" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), "[1,2,3,4,5,9]", "tokens is not an array" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), "{\"base64\":\"AAAA\"}", "tokens is not an array" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"dtype\":\"<i4\",\"shape\":[6],"
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "tokens has 3 bytes of data" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), "{\"dtype\":\"<i4\",\"shape\":[6],\"data\":\"AAAA\"}",
	  "tokens has data that are not binary" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"shape\":[6],\"dtype\":\"<i4\","
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "in this order" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"dtype\":\"<i4\",\"shape\":[6],"
	  "\"Data\":{\"base64\":\"AAAA\"}}",
	  "in this order" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"), "{\"dtype\":\"<i4\",\"shape\":6,\"data\":{\"base64\":\"AAAA\"}}",
	  "tokens does not have 1 dimension" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"dtype\":\"<i4\",\"shape\":[6.0],"
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "tokens has a size that is not" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"dtype\":\"<i4\",\"shape\":[-6],"
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "tokens has a size that is not" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"dtype\":\"<i4\",\"shape\":[2147483648],"
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "tokens has a size that is not" },
	{ ARRAY("<i4", "6", "1,2,3,4,5,9"),
	  "{\"dtype\":\"<i4\",\"shape\":[2147483647],"
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "tokens has 3 bytes of data" },
	{ "\"prompt_len\":2", "\"prompt_len\":7", "prompt_len is 7, but the sequence has only 6" },
	{ "\"prompt_len\":2", "\"prompt_len\":-1", "prompt_len is not" },
	{ "\"prompt_len\":2", "\"prompt_len\":2,\"response\":" ARRAY("<i4", "1", "3"),
	  "the record has a response and prompt_len" },
	{ "\"prompt_len\":2", "\"response\":" ARRAY("<i4", "0", ""), "response is empty" },
	{ "\"prompt_len\":2", "\"response\":" ARRAY("<i4", "2", "3,10"), "response: number 1 is 10" },
	{ "\"temperature\":0.0", "\"temperature\":-1.0",
	  "generation.temperature is -1, not a number of 0 or more" },
	{ WRITTEN("3,1,1,4,5,6"), WRITTEN("3,1,1,4,5,10"), "generation.tokens: number 5 is 10" },
	{ LENGTHS("2,3"), LENGTHS("2,4"), "generation.length: number 1 is 4, outside 1 to 3" },
	{ LENGTHS("2,3"), ARRAY("<i4", "1", "2"), "generation.length has the shape (1) where (2)" },
	{ "[\"eos\",\"length\"]", "[\"eos\",\"end\"]",
	  "generation.stop: number 1 is not one of eos|length|stop" },
	{ "[\"eos\",\"length\"]", "[\"eos\"]", "generation.stop has 1 elements where 2 were expected" },
	{ "[\"eos\",\"length\"]", "[\"eos\",1]", "an element of generation.stop is not a string" },
	{ "[\"x\",\"\"]", "[\"x\"]", "generation.text has 1 elements where 2 were expected" },
	{ "\"stop\":[", "\"halt\":[", "generation has no 'stop'" },
	{ "7,8,9,0,6,5", "7,8,9,10,6,5", "choice.tokens: number 3 is 10, outside 0 to 9" },
	{ CHOSEN("2,1,2"), CHOSEN("2,0,2"), "choice.length: number 1 is 0, outside 1 to 2" },
	{ CHOSEN("2,1,2"), CHOSEN("2,1,3"), "choice.length: number 2 is 3, outside 1 to 2" },
	{ CHOSEN("1,0,1"), CHOSEN("1,1,1"), "choice.from: number 1 is 1, outside 0 to 0" },
	{ CHOSEN("1,0,1"), CHOSEN("1,0,-1"), "choice.from: number 2 is -1, outside 0 to 1" },
	{ CHOSEN("1,0,1"), LENGTHS("1,0"), "choice.from has the shape (2) where (3) was expected" },
	{ CHOSEN("0,0,1"), CHOSEN("0,0,2"), "choice.greedy: number 2 is 2, outside 0 to 1" },
	{ ARRAY("<f4", "3", "-1,-2.5,0"), ARRAY("<f4", "2", "-1,-2.5"),
	  "choice.logp has the shape (2) where (3) was expected" },
	{ "\"length\":" CHOSEN("2,1,2") ",", "", "choice has no 'length'" },
	{ "\"prompt_len\":2", "\"prompt_len\":\"2\"", "prompt_len is not" },
	{ "\"prompt_len\":2", "\"prompt_len\":4294967298", "prompt_len is not" },
	{ "[\"a\",\"b\"]", "\"a\"", "answers is not a list" },
	{ "[\"a\",\"b\"]", "[\"a\",1]", "an element of answers is not a string" },
	{ "[\"a\",\"b\"]", "[\"a\",null]", "an element of answers is not a string" },
	{ "[\"a\",\"b\"]", "[\"a\",\"b\\u0000\"]", "answers contains a NUL" },
	{ "\"source\":\"s\"", "\"source\":1", "source is not a string" },
	{ "\"source\":\"s\"", "\"source\":\"s\\u0000\"", "source contains a NUL" },
	{ "\"source\":\"s\"", "\"source\":null", "'source' is nil" },
	{ "{\"m\":1}", "[]", "meta is not a map" },
	{ "{\"m\":1}", "null", "'meta' is nil" },
	{ ARRAY("<f4", "6", "1,1,1,1,1,1.5"),
	  "{\"dtype\":\"<f4\",\"shape\":[6],"
	  "\"data\":{\"base64\":\"AADAfwAAgD8AAIA/AACAPwAAgD8AAIA/\"}}",
	  "entropy is NaN (number 0)" },
	{ ARRAY("<f4", "6", "1,1,1,1,1,1.5"),
	  "{\"dtype\":\"<f4\",\"shape\":[6],"
	  "\"data\":{\"base64\":\"AACAfwAAgD8AAIA/AACAPwAAgD8AAIA/\"}}",
	  "entropy is infinite" },
	{ ARRAY("<f4", "6", "1,1,1,1,1,1.5"), ARRAY("<f4", "5", "1,1,1,1,1"),
	  "entropy has the shape (5) where (6) was expected" },
	{ ARRAY("<f4", "6", "1,1,1,1,1,1.5"), ARRAY("<f2", "6", "1,1,1,1,1,1.5"),
	  "entropy does not have the dtype <f4" },
	{ ARRAY("<f4", "5", "1,2,3,4,5"), ARRAY("<f4", "6", "1,2,3,4,5,6"),
	  "nll has the shape (6) where (5) was expected" },
	{ ARRAY("<f4", "6,1", "1,2,3,4,5,6"), ARRAY("<f4", "1,6", "1,2,3,4,5,6"),
	  "hidden has the shape (1, 6) where (6, 6) was expected" },
	{ ARRAY("<f4", "6,1", "1,2,3,4,5,6"), ARRAY("<f4", "6,0", ""), "hidden is empty" },
	{ ARRAY("<f4", "6,1", "1,2,3,4,5,6"),
	  "{\"dtype\":\"<f4\",\"shape\":[6,2147483647],"
	  "\"data\":{\"base64\":\"AAAA\"}}",
	  "hidden has 3 bytes of data" },
	{ ARRAY("<i4", "2", "1,3"), ARRAY("<i4", "2", "0,3"), "positions: number 0 is 0, outside 1 to 5" },
	{ ARRAY("<i4", "2", "1,3"), ARRAY("<i4", "2", "1,6"), "positions: number 1 is 6, outside 1 to 5" },
	{ ARRAY("<i4", "2", "1,3"), ARRAY("<i4", "2", "-1,3"), "positions: number 0 is -1" },
	{ ARRAY("<i4", "2", "1,3"), ARRAY("<i4", "0", ""), "positions is empty" },
	{ ARRAY("<i4", "2", "1,3"), ARRAY("<i4", "1", "1"),
	  "rollout.tokens has the shape (2, 1, 2) where (1, 1, 2) was expected" },
	{ "\"positions\":", "\"places\":", "the record has a rollout but no positions" },
	{ "\"temperature\":0.5,", "", "rollout has no 'temperature'" },
	{ "\"temperature\":0.5", "\"temperature\":0.0", "rollout.temperature is 0" },
	{ "\"temperature\":0.5", "\"temperature\":-1.0", "rollout.temperature is -1" },
	{ "\"temperature\":0.5", "\"temperature\":\"1\"", "rollout.temperature is not a number" },
	{ "\"tokens\":" ARRAY("<i4", "2,1,2", "1,2,3,4") ",", "", "rollout has no 'tokens'" },
	{ ARRAY("<i4", "2,1,2", "1,2,3,4"), ARRAY("<i4", "2,1,2", "1,2,3,10"),
	  "rollout.tokens: number 3 is 10" },
	{ ARRAY("<i4", "2,1,2", "1,2,3,4"), ARRAY("<i4", "2,0,2", ""), "rollout.tokens is empty" },
	{ ARRAY("<i4", "2,1,2", "1,2,3,4"), ARRAY("<i4", "2,2,2", "1,2,3,4,5,6,7,8"),
	  "rollout.length has the shape (2, 1) where (2, 2) was expected" },
	{ ARRAY("<i4", "2,1,2", "1,2,3,4"),
	  "{\"dtype\":\"<i4\",\"shape\":[2,2147483647,2147483647],"
	  "\"data\":{\"base64\":\"\"}}",
	  "rollout.tokens has 0 bytes" },
	{ ARRAY("<f4", "2,1,2", "-1,-2,-3,-4"), ARRAY("<f4", "2,1,1", "-1,-2"),
	  "rollout.logp has the shape (2, 1, 1) where (2, 1, 2) was expected" },
	{ REFERENCE("2,1,2"), REFERENCE("2,2,1"),
	  "rollout.logp_ref has the shape (2, 2, 1) where (2, 1, 2) was expected" },
	{ REFERENCE("2,1,2"), REFERENCE("4"), "rollout.logp_ref does not have 3 dimensions" },
	{ REFERENCE("2,1,2"), KEPT_BYTES("AACAvwAAgP8AAIC/AACAvw=="),
	  "rollout.logp_ref is infinite (number 1)" },
	{ KEPT("0.5,0,1,0.25"), PER_TOKEN("2,2,1"),
	  "rollout.kept has the shape (2, 2, 1) where (2, 1, 2) was expected" },
	{ KEPT("0.5,0,1,0.25"), ARRAY("<i4", "2,1,2", "1,1,1,1"),
	  "rollout.kept does not have the dtype <f4" },
	{ KEPT("0.5,0,1,0.25"), KEPT("0.5,0,1,1.5"), "rollout.kept: number 3 is 1.5, outside 0 to 1" },
	{ KEPT("0.5,0,1,0.25"), KEPT("0.5,0,1.00000012,1"),
	  "rollout.kept: number 2 is 1.00000012, outside 0 to 1" },
	{ KEPT("0.5,0,1,0.25"), KEPT("0.5,-0.1,1,1"),
	  "rollout.kept: number 1 is -0.100000001, outside 0 to 1" },
	{ KEPT("0.5,0,1,0.25"), KEPT_BYTES("AAAAPwAAgD8AAMB/AADAvw=="), "rollout.kept is NaN (number 2)" },
	{ ARRAY("<f4", "2,1,2,1", "1,2,3,4"), ARRAY("<f4", "2,1,2,2", "1,2,3,4,5,6,7,8"),
	  "rollout.h_gt has the shape (2, 2, 1) where (2, 2, 2) was expected" },
	{ ARRAY("<f4", "2,1,2,1", "1,2,3,4"),
	  "{\"dtype\":\"<f4\",\"shape\":[2,1,2,2147483647],"
	  "\"data\":{\"base64\":\"\"}}",
	  "rollout.h_pred has 0 bytes" },
	{ ",\"h_gt\":" ARRAY("<f4", "2,2,1", "1,2,3,4"), "", "rollout has h_pred but no h_gt" },
	{ "\"h_pred\":" ARRAY("<f4", "2,1,2,1", "1,2,3,4") ",", "", "rollout has h_gt but no h_pred" },
	{ ARRAY("<i4", "2,1", "2,1"), ARRAY("<i4", "2,1", "2,0"),
	  "rollout.length: number 1 is 0, outside 1 to 2" },
	{ ARRAY("<i4", "2,1", "2,1"), ARRAY("<i4", "2,1", "3,1"),
	  "rollout.length: number 0 is 3, outside 1 to 2" },
	{ ARRAY("<i4", "2,1", "2,1"), ARRAY("<i4", "1,2", "2,1"),
	  "rollout.length has the shape (1, 2) where (2, 1) was expected" },
	{ PER_TOKEN("2,1,2"), PER_TOKEN("2,2,1"),
	  "reward.per_token has the shape (2, 2, 1) where (2, 1, 2) was expected" },
	{ "\"advantage\":" ARRAY("<f4", "2,1", "-1,1"), "\"advantage_per_token\":" PER_TOKEN("2,2,1"),
	  "advantage_per_token has the shape (2, 2, 1) where (2, 1, 2) was expected" },
	{ "\"advantage\":", "\"advantage_per_token\":" PER_TOKEN("2,1,2") ",\"advantage\":",
	  "the record has advantage and advantage_per_token, but only one of them is allowed" },
	{ "\"rollout\":{", "\"rollup\":{", "the record has a reward but no rollout" },
	{ "\"kind\":\"edit\",", "", "reward has no 'kind'" },
	{ "\"kind\":\"edit\"", "\"kind\":4", "reward.kind is not a string" },
	{ "\"total\":" ARRAY("<f4", "2,1", "0.5,1") ",", "", "reward has no 'total'" },
	{ "\"total\":" TWO, "\"total\":" ARRAY("<f4", "1,1", "0.5"),
	  "reward.total has the shape (1, 1) where (2, 1) was expected" },
	{ "\"total\":" TWO, "\"total\":" FOUR, "reward.edit has the shape (2, 1) where (2, 2) was expected" },
	{ "\"total\":" TWO, "\"total\":" BYTES("AADAfwAAgD8="), "reward.total is NaN" },
	{ Z9(FOUR), "reward.parts.z9 has the shape (2, 2) where (2, 1) was expected" },
	{ "\"total\":" TWO ",\"edit\":" TWO ",\"parts\":{\"z9\":" PART "," LONG PART
	  "},\"per_token\":" PER_TOKEN("2,1,2") "}",
	  "\"total\":" FOUR "}", "reward has 2 numbers per position, but rollout has 1" },
	{ "\"parts\":{", "\"parts\":[1],\"others\":{", "reward.parts is not a map" },
	{ "\"parts\":{", "\"parts\":null,\"others\":{", "'parts' is nil" },
	{ "\"parts\":{", "\"parts\":{},\"others\":{", "reward.parts is empty" },
	{ NAMED(""), NO_NAME("") },
	{ NAMED("9z"), NO_NAME("9z") },
	{ NAMED("_z"), NO_NAME("_z") },
	{ NAMED("z-9"), NO_NAME("z-9") },
	{ NAMED("z 9"), NO_NAME("z 9") },
	{ NAMED("z.9"), NO_NAME("z.9") },
	{ NAMED("z\\u001b"), NO_NAME("z\\x1b") },
	{ NAMED("\xc3\xb6"), NO_NAME("\\xc3\\xb6") },
	{ NAMED("B_is_a_name_that_has_33_letters_x"), NO_NAME("B_is_a_name_that_has_33_letters_x") },
	{ NAMED("edit"), "reward.parts has 'edit', which is a key of reward itself" },
	{ NAMED("cosine"), "reward.parts has 'cosine', which is a key of reward itself" },
	{ Z9("1.5"), "reward.parts.z9 is not an array {dtype, shape, data}" },
	{ Z9("null"), "reward.parts.z9 is not an array" },
	{ Z9("[[0.5],[1]]"), "reward.parts.z9 is not an array" },
	{ Z9("{\"z8\":" PART "}"), "reward.parts.z9 is not an array" },
	{ Z9(ARRAY("<f2", "2,1", "0.5,1")), "reward.parts.z9 does not have the dtype <f4" },
	{ Z9(ARRAY("<i4", "2,1", "0,1")), "reward.parts.z9 does not have the dtype <f4" },
	{ Z9(ARRAY("<f4", "2", "0.5,1")), "reward.parts.z9 does not have 2 dimensions" },
	{ Z9(ARRAY("<f4", "2,1,1", "0.5,1")), "reward.parts.z9 does not have 2 dimensions" },
	{ Z9(ARRAY("<f4", "1,2", "0.5,1")),
	  "reward.parts.z9 has the shape (1, 2) where (2, 1) was expected" },
	{ Z9(ARRAY("<f4", "2,0", "")), "reward.parts.z9 is empty" },
	{ Z9(BYTES("AADAfw==")), "reward.parts.z9 has 4 bytes of data" },
	{ Z9(BYTES("AADAfwAAgD8=")), "reward.parts.z9 is NaN (number 0)" },
	{ "\"reward\":{\"kind\"", "\"reward\":[1],\"o\":{\"kind\"", "reward is not a map" },
	{ ARRAY("<f4", "2,1", "-1,1"), ARRAY("<f4", "2,2", "-1,1,1,1"),
	  "advantage has the shape (2, 2) where (2, 1) was expected" },
	{ ARRAY("<f4", "2,1", "-1,1"), ARRAY("<f4", "2", "-1,1"), "advantage does not have 2 dimensions" },
	{ "\"other\":{\"x\":[1,{\"y\":\"z\"}]}", "\"other\":null", "'other' is nil" },
	{ "\"seq\":1", "\"seq\":2", "found record 2 where record 1 was expected" },
	{ "\"type\":\"seq\"", "\"type\":\"head\"", "this is a second head" },
};

static const char good_head[] =
	"{\"seq\":0,\"type\":\"head\",\"body\":{\"format\":1,\"vocab\":10,\"seed\":7,"
	"\"tokenizer\":{\"kind\":\"bytes\",\"hash\":\"0123456789abcdef\",\"more\":[1]},"
	"\"model\":{\"arch\":\"0000000000000001\",\"weights\":\"0000000000000002\",\"step\":3,"
	"\"dtype\":\"f32\"},"
	"\"shard\":{\"rank\":1,\"ranks\":3,\"mini_batch\":4,\"records\":0,\"steps\":0},"
	"\"history\":[{\"tool\":\"x\",\"version\":\"1\",\"options\":{\"a\":1.0}}],"
	"\"later\":{\"k\":true}}}";

static const struct {
	const char *from, *to, *words;
} broken_heads[] = {
	{ "\"format\":1", "\"format\":2",
	  "the stream has format 2, but this version of rf-tools reads format 1 (use a newer version)" },
	{ "\"format\":1,", "", "the head has no 'format'" },
	{ "\"format\":1", "\"format\":\"1\"", "format is not" },
	{ "\"vocab\":10", "\"vocab\":0", "vocab is not" },
	{ "\"vocab\":10", "\"vocab\":2147483648", "vocab is not" },
	{ "\"vocab\":10", "\"vocab\":null", "'vocab' is nil" },
	{ "\"seed\":7", "\"seed\":-7", "seed is not" },
	{ "\"kind\":\"bytes\"", "\"kind\":\"\"", "tokenizer.kind is not" },
	{ "\"kind\":\"bytes\"", "\"kind\":\"0123456789012345678901234567890123456789\"",
	  "tokenizer.kind is not" },
	{ "0123456789abcdef", "0123456789abcdeF", "tokenizer.hash is not a hash" },
	{ "0123456789abcdef", "0123456789abcde", "tokenizer.hash is not a hash" },
	{ "\"0000000000000002\"", "2", "model.weights is not a hash" },
	{ "\"step\":3", "\"step\":-3", "model.step is not" },
	{ "\"rank\":1", "\"rank\":3", "the head's shard contradicts itself" },
	{ "\"rank\":1", "\"rank\":-1", "shard.rank is not" },
	{ "\"rank\":1,", "", "the head has no shard.rank" },
	{ "\"ranks\":3", "\"ranks\":0", "shard.ranks is not" },
	{ "\"steps\":0", "\"steps\":2", "the head's shard contradicts itself" },
	{ "\"records\":0", "\"records\":9", "the head's shard contradicts itself" },
	{ "\"steps\":0", "\"steps\":0,\"more\":1", "the head's shard has an unknown key" },
	{ "\"tokenizer\":{", "\"tokenizer\":[],\"t\":{", "tokenizer is not a map" },
	{ "\"history\":[{", "\"history\":{\"a\":[]},\"h\":[{", "history is not a list" },
	{ "\"history\":[", "\"history\":[1,", "stage 0 of the history is not a map" },
	{ "\"seq\":0", "\"seq\":1", "found record 1 where record 0 was expected" },
	{ "\"type\":\"head\"", "\"type\":\"seq\"", "the first message is not a head" },
};

/* Copies a text with its first `from` replaced. */
static void replace_first(char *to, size_t size, const char *text, const char *from, const char *with)
{
	char old[4000];
	const char *at;

	snprintf(old, sizeof old, "%s", text); /* to may be text */
	if (!(at = strstr(old, from)))
		exit(2);
	snprintf(to, size, "%.*s%s%s", (int)(at - old), old, with, at + strlen(from));
}

static void add_line(struct made *m, const char *line)
{
	struct rf_err e;
	void *msg = NULL;
	size_t n;

	if (rf_msg_from_json(line, strlen(line), &msg, &n, &e) != RF_OK) {
		ok(false, "%s: %s", e.msg, line);
		return;
	}
	made_message(m, msg, n);
	free(msg);
}

/* Reads a stream with this head and this record (NULL: none). */
static enum rf_code read_lines(const char *head, const char *record, struct rf_err *e)
{
	struct made m = { 0 };
	uint64_t hash[4];
	enum rf_code rc;
	int count;

	add_line(&m, head);
	if (record)
		add_line(&m, record);
	made_end(&m);
	*e = (struct rf_err){ 0 };
	rc = read_hashes(m.bytes.p, m.bytes.n, hash, 4, &count, e);
	made_free(&m);
	return rc;
}

static void test_rules(void)
{
	struct rf_err e = { 0 };
	char line[4000];

	ok(read_lines(good_head, good_record, &e) == RF_EOF, "a record with every key is read: %s", e.msg);
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		replace_first(line, sizeof line, good_record, broken[i].from, broken[i].to);
		ok(read_lines(good_head, line, &e) == RF_EDATA && strstr(e.msg, broken[i].words) &&
		           !strncmp(e.msg, "<test>: record 1 (byte ", 23),
		   "refused: %s", e.msg);
	}
	for (size_t i = 0; i < sizeof broken_heads / sizeof *broken_heads; i++) {
		replace_first(line, sizeof line, good_head, broken_heads[i].from, broken_heads[i].to);
		ok(read_lines(line, NULL, &e) == RF_EDATA && strstr(e.msg, broken_heads[i].words) &&
		           !strncmp(e.msg, "<test>: head (byte 0): ", 23),
		   "refused: %s", e.msg);
	}
	replace_first(line, sizeof line, good_record, "\"temperature\":0.5", "\"temperature\":1");
	ok(read_lines(good_head, line, &e) == RF_EOF, "a temperature may be an integer");
	replace_first(line, sizeof line, good_record, ",\"logp\":" ARRAY("<f4", "2,1,2", "-1,-2,-3,-4"), "");
	ok(read_lines(good_head, line, &e) == RF_EOF, "rollouts of another program may lack logp");
	replace_first(line, sizeof line, good_record,
	              ",\"logp_ref\":" REFERENCE("2,1,2") ",\"kept\":" KEPT("0.5,0,1,0.25"), "");
	ok(read_lines(good_head, line, &e) == RF_EOF, "rollouts may lack logp_ref and kept");
	ok(read_lines("{\"seq\":0,\"type\":\"head\",\"body\":{\"format\":1}}", good_record, &e) == RF_EOF,
	   "a head needs only a format");
}

/* Checks how many parts a reward may have, and their names. */
static void test_parts(void)
{
	struct rf_err e = { 0 };
	struct rf_record r;
	struct rf_reward *w = &r.reward;
	char line[9000], more[6000] = "";
	float *value = NULL;
	bool good = true;

	/* good_record has three */
	for (int i = 3; i < RF_PARTS; i++)
		snprintf(more + strlen(more), sizeof more - strlen(more), "\"p%d\":" PART ",", i);
	replace_first(line, sizeof line, good_record, "\"z9\":", strcat(more, "\"z9\":"));
	ok(read_lines(good_head, line, &e) == RF_EOF, "the largest number of parts is read: %s", e.msg);
	replace_first(line, sizeof line, good_record, "\"z9\":", strcat(more, PART ",\"z10\":"));
	ok(read_lines(good_head, line, &e) == RF_EDATA && strstr(e.msg, ": reward has more than 32 parts"),
	   "%s", e.msg);

	rf_record_init(&r);
	some_record(&r, REWARD, 1);
	ok(!rf_part_add(&r, "no-name", &e) && e.code == RF_EDATA && strstr(e.msg, "'no-name' is not a name"),
	   "%s", e.msg);
	ok(!rf_part_add(&r, "other", &e) && e.code == RF_EDATA && strstr(e.msg, "already has a part 'other'"),
	   "%s", e.msg);
	for (int i = w->parts; i < RF_PARTS && good; i++) {
		char name[] = { 'n', (char)('a' + i % 26), (char)('a' + i / 26), 0 };

		good = (value = rf_part_add(&r, name, &e)) && value == rf_part(w, name);
		for (int j = 0; good && j < r.c * w->n; j++)
			value[j] = (float)i;
	}
	ok(good && rf_record_check(&r, 40, &e) == RF_OK, "parts are added up to %d", RF_PARTS);
	ok(!rf_part_add(&r, "one_more", &e) && e.code == RF_EDATA && strstr(e.msg, "more than 32 parts"),
	   "%s", e.msg);
	w->part[RF_PARTS - 1].name = "other";
	ok(rf_record_check(&r, 40, &e) == RF_EDATA && strstr(e.msg, "the part 'other' twice"),
	   "a writer refuses it: %s", e.msg);
	w->part[RF_PARTS - 1].name = "x.y";
	ok(rf_record_check(&r, 40, &e) == RF_EDATA && strstr(e.msg, "reward.parts: 'x.y' is not"),
	   "a writer refuses it: %s", e.msg);
	w->part[RF_PARTS - 1].name = "xy";
	value[1] = INFINITY;
	ok(rf_record_check(&r, 40, &e) == RF_EDATA && strstr(e.msg, "reward.parts.xy is infinite (number 1)"),
	   "a writer refuses it: %s", e.msg);
	ok(!strcmp(rf_part_known(0), "cosine") && !strcmp(rf_part_known(2), "edit") && !rf_part_known(3),
	   "three parts have keys of their own");
	rf_record_free(&r);
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void test_ends(void)
{
	static const struct {
		const char *line, *words;
	} some[] = {
		{ "{\"seq\":1,\"type\":\"end\",\"body\":{\"count\":0,\"xxh64\":0}}",
		  "its hash does not match the records" },
		{ "{\"seq\":1,\"type\":\"end\",\"body\":{\"count\":1,\"xxh64\":0}}",
		  "it counts 1 records, but there are 0" },
		{ "{\"seq\":1,\"type\":\"end\",\"body\":{\"xxh64\":0}}", "the end record has no 'count'" },
		{ "{\"seq\":1,\"type\":\"end\",\"body\":{\"count\":0}}", "the end record has no 'xxh64'" },
		{ "{\"seq\":1,\"type\":\"end\",\"body\":{\"count\":0,\"xxh64\":1.0}}",
		  "the end record has no 'xxh64'" },
		{ "{\"seq\":2,\"type\":\"end\",\"body\":{\"count\":0,\"xxh64\":0}}",
		  "found record 2 where record 1 was expected" },
	};
	struct rf_err e = { 0 };
	uint64_t hash[4];
	int count;

	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		struct made m = { 0 };
		enum rf_code rc;
		some_head(&m);
		add_line(&m, some[i].line);
		rc = read_hashes(m.bytes.p, m.bytes.n, hash, 4, &count, &e);
		ok(rc == RF_EDATA && strstr(e.msg, some[i].words), "an end record is refused: %s", e.msg);
		made_free(&m);
	}
}

/* ---- reading and writing again ------------------------------------------------------------- */

static void test_pass_through(void)
{
	struct rf_err e = { 0 };
	struct rf_record r, copy;
	struct rf_head h, same;
	int whole = -5;
	uint64_t large = UINT64_MAX;
	double real = 2;
	bool yes = true;
	const char *text = "x y", *bad = "\xff";
	struct rf_opt_list list = { { "v", "w" }, 2 }, empty = { .n = 0 };
	const struct rf_opt options[] = {
		{ .name = "i", .kind = RF_OPT_INT, .to = &whole },
		{ .name = "u", .kind = RF_OPT_U64, .to = &large },
		{ .name = "r", .kind = RF_OPT_REAL, .to = &real },
		{ .name = "b", .kind = RF_OPT_FLAG, .to = &yes },
		{ .name = "t", .kind = RF_OPT_TEXT, .to = &text },
		{ .name = "l", .kind = RF_OPT_LIST, .to = &list },
		{ .name = "none", .kind = RF_OPT_LIST, .to = &empty },
		{ .name = "t2", .kind = RF_OPT_TEXT, .to = &bad },
	};
	struct rf_buf a = { 0 }, b = { 0 };
	struct rf_msg m;
	void *msg = NULL;
	size_t n;
	char line[4000], *json = NULL;

	rf_record_init(&r);
	rf_record_init(&copy);
	rf_msg_from_json(good_record, strlen(good_record), &msg, &n, &e);
	rf_msg_open(&m, msg, n, &e);
	rf_record_decode(&r, m.body.p, (size_t)(m.body.end - m.body.p), 10, &e);
	rf_record_encode(&a, 1, &r);
	ok(a.n == n && !memcmp(a.p, msg, n),
	   "a record with every key and an unknown key is written as it was read");
	ok(rf_record_copy(&copy, &r, &e) == RF_OK, "it is copied");
	for (int i = 0; i < r.reward.parts; i++)
		r.reward.part[i].value[0] = 9;
	*strchr(r.reward.part[2].name, 'B') = 'b';
	rf_record_free(&r);
	rf_record_encode(&b, 1, &copy);
	ok(a.n == b.n && !memcmp(a.p, b.p, a.n), "the copy is the same, with its own memory");
	free(msg);

	replace_first(line, sizeof line, good_record, "\"body\":{\"id\":5,",
	              "\"body\":{\"zeta\":[1.5,\"\",{}],");
	replace_first(line, sizeof line, line, "\"reward\":{\"kind\"",
	              "\"id\":5,\"reward\":{\"later\":{\"base64\":\"AAE=\"},\"kind\"");
	replace_first(line, sizeof line, line, "\"rollout\":{", "\"rollout\":{\"sampler\":\"nucleus\",");
	replace_first(line, sizeof line, line, "\"kind\":\"edit\",\"total\":" TWO ",\"edit\":" TWO ",", "");
	replace_first(line, sizeof line, line, LONG PART "}",
	              LONG PART "},\"edit\":" PART ",\"total\":" PART ",\"kind\":\"mine\"");
	rf_msg_from_json(line, strlen(line), &msg, &n, &e);
	rf_msg_open(&m, msg, n, &e);
	ok(rf_record_decode(&copy, m.body.p, (size_t)(m.body.end - m.body.p), 10, &e) == RF_OK,
	   "keys in another order, unknown ones at every level: %s", e.msg);
	a.n = 0;
	rf_record_encode(&a, 1, &copy);
	rf_msg_to_json(a.p, a.n, &json, &n, &e);
	ok(json && strstr(json, "\"body\":{\"id\":5,\"tokens\"") &&
	           strstr(json, "},\"zeta\":[1.5,\"\",{}],\"other\":{") &&
	           strstr(json, "},\"later\":{\"base64\":\"AAE=\"}},\"advantage\"") &&
	           strstr(json, "},\"sampler\":\"nucleus\"},\"reward\":{\"kind\":\"mine\",\"total\":" PART
	                        ",\"edit\":" PART ",\"parts\":{\"z9\":" PART "," LONG),
	   "are written in the order of the table, then the unknown keys unchanged");
	free(json);
	free(msg);
	rf_record_free(&copy);

	rf_head_init(&h);
	rf_msg_from_json(good_head, strlen(good_head), &msg, &n, &e);
	rf_msg_open(&m, msg, n, &e);
	rf_head_decode(&h, m.body, &e);
	rf_head_copy(&same, &h, &e);
	a.n = b.n = 0;
	rf_head_encode(&a, &h);
	rf_head_free(&h);
	rf_head_encode(&b, &same);
	ok(a.n == n && !memcmp(a.p, msg, n) && b.n == n && !memcmp(b.p, msg, n),
	   "a head, and its copy, are written as the head was read");
	free(msg);

	rf_head_stage(&same, "rf-a", "0.1", &e);
	for (int i = 0; i < 3; i++)
		rf_head_option(&same, &options[i], &e);
	rf_head_stage_model(&same, "000000000000000a", "000000000000000b", 7, &e);
	rf_head_copy(&h, &same, &e);
	a.n = b.n = 0;
	rf_head_encode(&a, &h);
	rf_head_free(&h);
	rf_head_encode(&b, &same);
	ok(a.n == b.n && !memcmp(a.p, b.p, a.n), "the stage that is appended is copied with its model");
	rf_head_stage(&same, "rf-b", "0.2", &e);
	for (int i = 3; i < 7; i++)
		rf_head_option(&same, &options[i], &e);
	ok(rf_head_option(&same, &options[7], &e) == RF_EUSAGE, "an option that is not UTF-8 is refused: %s",
	   e.msg);
	strcpy(same.weights, "0000000000000004");
	a.n = 0;
	rf_head_encode(&a, &same);
	rf_msg_to_json(a.p, a.n, &json, &n, &e);
	ok(strstr(json, "\"model\":{\"arch\":\"0000000000000001\",\"weights\":\"0000000000000004\","
	                "\"step\":3},"),
	   "unknown keys of a model are removed with the model");
	ok(strstr(json,
	          "{\"a\":1.0}},{\"tool\":\"rf-a\",\"version\":\"0.1\","
	          "\"model\":{\"arch\":\"000000000000000a\",\"weights\":\"000000000000000b\",\"step\":7},"
	          "\"options\":{\"i\":-5,"
	          "\"u\":\"18446744073709551615\",\"r\":2.0}},{\"tool\":\"rf-b\",\"version\":\"0.2\","
	          "\"options\":{\"b\":true,\"t\":\"x y\",\"l\":[\"v\",\"w\"]}}],\"later\""),
	   "stages are appended to the history: %s", json);
	free(json);
	rf_head_free(&same);
	rf_buf_free(&a);
	rf_buf_free(&b);
}

/* Decodes a record that is a line of JSON. */
static void read_record(struct rf_record *r, const char *line)
{
	struct rf_err e = { 0 };
	struct rf_msg m;
	void *msg = NULL;
	size_t n;

	rf_record_init(r);
	if (rf_msg_from_json(line, strlen(line), &msg, &n, &e) != RF_OK ||
	    rf_msg_open(&m, msg, n, &e) != RF_OK ||
	    rf_record_decode(r, m.body.p, (size_t)(m.body.end - m.body.p), 10, &e) != RF_OK)
		ok(false, "%s: %s", e.msg, line);
	free(msg);
}

/* Checks which of the new keys of rollouts change the hash of a record.  The hash of the record without these
 * keys is that of the version that did not know them. */
static void test_hash(void)
{
	static const char per_token[] = ",\"advantage_per_token\":" REFERENCE("2,1,2");
	struct rf_record r;
	char line[4000], plain[4000];
	uint64_t hash, with_ref;

	replace_first(plain, sizeof plain, good_record, ",\"logp_ref\":" REFERENCE("2,1,2"), "");
	replace_first(plain, sizeof plain, plain, ",\"kept\":" KEPT("0.5,0,1,0.25"), "");
	read_record(&r, plain);
	hash = rf_record_hash(&r);
	ok(hash == UINT64_C(0x60d585bd6c4cba76), "the hash of a record without logp_ref: %016llx",
	   (unsigned long long)hash);
	rf_record_free(&r);

	replace_first(line, sizeof line, good_record, ",\"logp_ref\":" REFERENCE("2,1,2"), "");
	read_record(&r, line);
	ok(rf_record_hash(&r) == hash, "kept does not change the hash");
	rf_record_free(&r);

	read_record(&r, good_record);
	with_ref = rf_record_hash(&r);
	r.rollout.logp_ref[3] = -6.5f;
	ok(with_ref != hash && rf_record_hash(&r) != with_ref, "logp_ref changes the hash");
	rf_record_free(&r);

	/* the same numbers as logp_ref, and as advantages */
	replace_first(line, sizeof line, plain, ",\"advantage\":" ARRAY("<f4", "2,1", "-1,1"), per_token);
	read_record(&r, line);
	hash = rf_record_hash(&r);
	r.rollout.logp_ref = r.advantage_per_token;
	r.advantage_per_token = NULL;
	ok(rf_record_hash(&r) != hash, "logp_ref and advantages per token have different hashes");
	rf_record_free(&r);
}

/* Checks that the writer refuses a message of 4 GiB or more before it reads the numbers. */
static void test_too_large(void)
{
	struct rf_record r;
	struct rf_err e = { 0 };

	rf_record_init(&r);
	r.T = 1 << 16;
	r.tokens = some_ints(&r, 1 << 16, 0, 10);
	r.d = 1 << 14;
	r.hidden = (float *)r.tokens;
	ok(rf_record_check(&r, 0, &e) == RF_EIO && strstr(e.msg, "hidden has 4 GiB or more"), "%s", e.msg);
	r.d = INT32_MAX;
	ok(rf_record_check(&r, 0, &e) == RF_EIO && strstr(e.msg, "hidden has 4 GiB or more"), "%s", e.msg);
	r.hidden = NULL;
	ok(!rf_record_alloc(&r, SIZE_MAX / 2, 4) && !rf_record_alloc(&r, SIZE_MAX / 2, 1),
	   "no allocation wraps around");
	rf_record_free(&r);
}

/* ---- the checker --------------------------------------------------------------------------- */

/* Checks that a stream is refused because of this message, in which the checker found a mistake. */
static void refuse_message(const char *name, const void *msg, size_t n)
{
	struct made m = { 0 };
	struct rf_err e = { 0 };
	uint64_t hash[4];
	int count;

	some_head(&m);
	made_message(&m, msg, n);
	made_end(&m);
	ok(read_hashes(m.bytes.p, m.bytes.n, hash, 4, &count, &e) == RF_EDATA && strstr(e.msg, "bad msgpack"),
	   "a stream with %s is refused: %s", name, e.msg);
	made_free(&m);
}

static void test_hostile(void)
{
	static const struct {
		const char *name, *bytes;
		size_t n;
	} some[] = {
		{ "nothing", "", 0 },
		{ "an array of 2^32-1", "\xdd\xff\xff\xff\xff\1", 6 },
		{ "a map of 2^32-1", "\xdf\xff\xff\xff\xff\1", 6 },
		{ "a string of 2^32-1", "\xdb\xff\xff\xff\xff", 5 },
		{ "binary of 2^32-1", "\xc6\xff\xff\xff\xff", 5 },
		{ "an extension",
		  "\xc7\x04\x01"
		  "abcd",
		  7 },
		{ "a fixed extension", "\xd4\x01\x02", 3 },
		{ "byte c1", "\xc1", 1 },
		{ "a timestamp", "\xd6\xff\0\0\0\0", 6 },
		{ "an array cut short", "\x93\x01\x02", 3 },
		{ "an integer cut short", "\xcd\x01", 2 },
		{ "a float cut short", "\xcb\0\0\0", 4 },
		{ "two objects", "\x01\x02", 2 },
		{ "a key that is a number", "\x81\x01\x02", 3 },
		{ "a key twice",
		  "\x82\xa1"
		  "a\1\xa1"
		  "a\2",
		  7 },
		{ "a key twice, in two forms",
		  "\x82\xa1"
		  "a\1\xd9\1"
		  "a\2",
		  8 },
		{ "a key with a NUL",
		  "\x81\xa2"
		  "a\0\1",
		  5 },
		{ "UTF-8 cut short", "\xa1\xc3", 2 },
		{ "UTF-8 too long", "\xa2\xc0\x80", 3 },
		{ "a surrogate", "\xa3\xed\xa0\x80", 4 },
		{ "beyond Unicode", "\xa4\xf4\x90\x80\x80", 5 },
		{ "UTF-8 that begins in the middle", "\xa1\x80", 2 },
		{ "an overlong 3-byte form", "\xa3\xe0\x80\x80", 4 },
		{ "NaN", "\xcb\x7f\xf8\0\0\0\0\0\0", 9 },
		{ "infinity", "\xca\x7f\x80\0\0", 5 },
		{ "9 deep", "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x01", 10 },
	};
	struct rf_err e = { 0 };
	struct rf_buf b = { 0 };
	msgpack_packer pk;
	struct rusage before, after;
	char key[20];

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		ok(rf_msg_check(some[i].bytes, some[i].n, &e) == RF_EDATA, "%s is refused: %s", some[i].name,
		   e.msg);
		refuse_message(some[i].name, some[i].bytes, some[i].n);
	}
	ok(rf_msg_check("\x91\x91\x91\x91\x91\x91\x91\x91\x01", 9, &e) == RF_OK, "8 deep is read");
	ok(rf_msg_check("\x93\1\2", 3, &e) == RF_EDATA &&
	           strstr(e.msg, "claims more elements than there are bytes"),
	   "a count is compared with the bytes left: %s", e.msg);

	/* the largest map there can be, its last two keys equal, and unequal */
	for (int twice = 0; twice < 2; twice++) {
		rf_pack_init(&pk, &b);
		b.n = 0;
		msgpack_pack_map(&pk, RF_MSG_NODES / 2 - 1);
		for (int i = 0; i < RF_MSG_NODES / 2 - 1; i++) {
			snprintf(key, sizeof key, "%x",
			         (unsigned)(i - (twice && i == RF_MSG_NODES / 2 - 2)) * 2654435761u);
			rf_pack_text(&pk, key);
			msgpack_pack_nil(&pk);
		}
		ok(rf_msg_check(b.p, b.n, &e) == (twice ? RF_EDATA : RF_OK) &&
		           (!twice || strstr(e.msg, "occurs twice")),
		   "a map of 49999 keys%s", twice ? ", one of them twice" : "");
	}
	b.n = 0;
	msgpack_pack_array(&pk, 8 << 20);
	for (int i = 0; i < 8 << 20; i++)
		rf_buf_add(&b, "\x01", 1);
	ok(rf_msg_check(b.p, b.n, &e) == RF_EDATA && strstr(e.msg, "100000 values"),
	   "a list of 8388608 is refused: %s", e.msg);
	b.n = 0;
	msgpack_pack_array(&pk, RF_MSG_NODES - 1);
	for (int i = 0; i < RF_MSG_NODES - 1; i++)
		rf_buf_add(&b, "\x01", 1);
	ok(rf_msg_check(b.p, b.n, &e) == RF_OK, "100000 values are read");
	rf_buf_free(&b);
	getrusage(RUSAGE_SELF, &after);
	ok(after.ru_maxrss - before.ru_maxrss < 32 << 10, "these checks need no memory: %ld KiB more",
	   after.ru_maxrss - before.ru_maxrss);
}

/* Damages messages: msgpack-c must read each message that passes the checker, and find the same length. */
static void test_against_msgpack_c(void)
{
	const int rounds = getenv("RF_ALL") ? 60000 : 15000; /* of each kind of message */
	long passed = 0, refused = 0, disagree = 0;
	msgpack_unpacked result;
	unsigned char copy[4096];

	msgpack_unpacked_init(&result);
	for (enum kind k = 0; k < KINDS + 2; k++) {
		struct rf_record r;
		struct rf_buf b = { 0 };
		struct rf_err e;
		rf_record_init(&r);
		if (k < KINDS) {
			some_record(&r, k, k);
			rf_record_encode(&b, k, &r);
		} else {
			void *msg = NULL;
			const char *line = k == KINDS ? good_head : good_record;
			size_t n;
			rf_msg_from_json(line, strlen(line), &msg, &n, &e);
			rf_buf_add(&b, msg, n);
			free(msg);
		}
		for (int i = 0; i < rounds && b.n <= sizeof copy; i++) {
			size_t n = b.n - (noise() % 8 == 0 ? noise() % b.n : 0), off = 0;
			memcpy(copy, b.p, n);
			for (uint32_t hits = noise() % 4; hits; hits--) {
				/* half of them near the front, where the structure is */
				size_t at = noise() % (noise() % 2 ? n : n < 40 ? n : 40);
				copy[at] =
					(unsigned char)(noise() % 2 ? noise() : copy[at] ^ 1u << noise() % 8);
			}
			if (rf_msg_check(copy, n, &e) != RF_OK) {
				refused++;
				continue;
			}
			passed++;
			disagree += msgpack_unpack_next(&result, (char *)copy, n, &off) !=
			                    MSGPACK_UNPACK_SUCCESS ||
			            off != n;
		}
		rf_buf_free(&b);
		rf_record_free(&r);
	}
	msgpack_unpacked_destroy(&result);
	ok(passed > 10000 && refused > 10000 && !disagree,
	   "of %ld damaged messages %ld pass and %ld do not; "
	   "msgpack-c disagrees about %ld",
	   passed + refused, passed, refused, disagree);
}

int main(void)
{
	test_rules();
	test_ends();
	test_pass_through();
	test_hash();
	test_parts();
	test_too_large();
	test_hostile();
	test_against_msgpack_c();
	return tap_end();
}
