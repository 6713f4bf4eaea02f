# subject.awk -- checks subjects of commits: git log --no-merges --format='%h %s' | awk -f t/lint/subject.awk
#
# A subject is `area: imperative`, at most 60 characters, without a full stop.  A program cannot tell an
# imperative from another word, so the first word after the area is refused only if its form or the list below
# gives it away.
function bad(why) {
	print "lint: commit " hash ": " why ": " subject
	failed = 1
}

BEGIN {
	n = split("the a an what who whose which where when how why of for in on at by to from with " \
	          "as and or no not none each every all it this that these", word, " ")
	for (i = 1; i <= n; i++)
		not_verb[word[i]] = 1
	n = split("embed exceed feed need seed shed speed bring ring string bias alias focus", word, " ")
	for (i = 1; i <= n; i++)
		is_verb[word[i]] = 1
}

{
	hash = $1
	subject = substr($0, length(hash) + 2)
	if (subject ~ /^Revert "/)
		next
	short = subject
	gsub(/[\200-\277]/, "", short)
	if (length(short) > 60)
		bad(length(short) " characters, more than 60")
	if (subject ~ /\.$/)
		bad("a full stop at the end")
	if (!match(subject, /^[^:]+: /) || tolower(subject) ~ /^(what|who|whose|of) /) {
		bad("not `area: imperative`")
		next
	}
	split(substr(subject, RLENGTH + 1), word, " ")
	verb = tolower(word[1])
	sub(/[,;:]$/, "", verb)
	if (verb in not_verb || (verb ~ /(ed|ing|[^s]s)$/ && !(verb in is_verb)) || verb !~ /^[a-z][a-z-]*$/)
		bad("`" word[1] "` is not an imperative")
}

END { exit failed }
