# Reads benchmark output and says whether the bars are met:
#   - English on the Qwen vocabulary: at least 10 MB/s on one core
#   - a megabyte of one letter, of spaces, of emoji or of random bytes: at most
#     four times the time per byte of English, on every vocabulary
# Exits with 1 if one is missed, or if nothing was measured.
/^BenchmarkEncode\// {
	split($1, part, "/")
	speed = 0
	for (i = 2; i < NF; i++) if ($(i + 1) == "best-MB/cpu-s") speed = $i
	name = part[2] "/" part[3]
	sub(/-[0-9]+$/, "", part[4])
	rate[name, part[4]] = speed
	names[name] = 1
}
END {
	for (name in names) {
		english = rate[name, "english"]
		if (name ~ /^qwen2/) {
			measured = 1
			ok = english >= 10
			if (!ok) missed = 1
			printf "%s  %s: English at %.1f MB/s, bar 10\n", ok ? "met   " : "MISSED", name, english
		}
		n = split("letter spaces emoji bytes", kinds, " ")
		for (k = 1; k <= n; k++) {
			ratio = english / rate[name, kinds[k]]
			ok = ratio <= 4
			if (!ok) missed = 1
			printf "%s  %s: %s take %.1f times the time of English, bar 4\n", ok ? "met   " : "MISSED", name, kinds[k], ratio
		}
	}
	if (!measured) { print "MISSED  the Qwen vocabulary was not measured"; missed = 1 }
	exit missed
}
