# shown.jq -- functions that show texts from other users' files, such as names of tasks: include "shown";
#
#     shown        the text for a terminal: control characters, and those that turn the direction of text, are
#                  escaped as in JSON
#     markdown     the text inside a line of Markdown, in which nothing is markup, a tag or a link
#     caption      the text for a figure, cut to 40 characters, or to N: caption(N)
def hex: if . < 16 then "0123456789abcdef"[.:. + 1] else (. / 16 | floor | hex) + (. % 16 | hex) end;

# acts: whether a terminal would act on the character with this number
def acts: . < 32 or (. >= 127 and . < 160) or . == 1564 or . == 8206 or . == 8207
	or (. >= 8232 and . <= 8238) or (. >= 8294 and . <= 8297);
def escaped: if . == 9 then "\\t" elif . == 10 then "\\n" elif . == 13 then "\\r"
	else "\\u" + ("000" + hex)[-4:] end;

def shown: [explode[] | if acts then escaped | explode[] else . end] | implode;

def alphanumeric: . != null and
	((. >= 48 and . <= 57) or (. >= 65 and . <= 90) or (. >= 97 and . <= 122) or . >= 160);

# An underscore within a word, a colon without // after it, and a point not after www are no markup.
def markdown: (shown | explode) as $c
	| [range($c | length) as $i | ([$c[$i]] | implode) as $one
		| if $one == "&" then "&amp;" elif $one == "<" then "&lt;" elif $one == ">" then "&gt;"
			elif ($one | inside("$*@[\\]`|~")) or $i == 0 and $one == "#"
				or $one == "_" and (($i > 0 and ($c[$i - 1] | alphanumeric)
					and ($c[$i + 1] | alphanumeric)) | not)
				or $one == ":" and $c[$i + 1:$i + 3] == [47, 47]
				or $one == "." and $i > 2
					and ($c[$i - 3:$i] | implode | ascii_downcase) == "www" then
				"\\" + $one
			else $one end
		| explode[]] | implode;

def caption($most): shown | if length > $most then .[:$most - 1] + "…" else . end;
def caption: caption(40);
