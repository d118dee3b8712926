package accept

import "strings"

// A Range is an element of such a header: a name in lower case, without parameters, and its weight in thousandths.
type Range struct {
	Name string
	Q    int
}

// Parse returns the elements of a header's values. An element with an invalid weight counts as refused, so that
// no client receives a coding that it may not support.
func Parse(values []string) []Range {
	var ranges []Range
	for _, value := range values {
		for element := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(element, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" {
				continue
			}
			r := Range{name, 1000}
			for p := range strings.SplitSeq(parameters, ";") {
				key, text, _ := strings.Cut(p, "=")
				if strings.EqualFold(strings.TrimSpace(key), "q") {
					r.Q = parseWeight(strings.TrimSpace(text))
				}
			}
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// parseWeight parses a qvalue with at most three decimals.
func parseWeight(s string) int {
	if len(s) == 0 || len(s) > 5 || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0
	}
	q := int(s[0]-'0') * 1000
	digit := 100
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		q += int(s[i]-'0') * digit
		digit /= 10
	}
	if q > 1000 {
		return 0
	}
	return q
}

// Identity is the name of the coding of a body as it is.
const Identity = "identity"

// Encoding returns the weight of a coding in thousandths: that of its element, of "*", or 0. Identity without an
// element has 1 unless it is refused: named codings are preferred.
func Encoding(ranges []Range, name string) int {
	rest := -1
	for _, r := range ranges {
		switch {
		case r.Name == name, name == "gzip" && r.Name == "x-gzip": // RFC 9110, section 8.4.1.3
			return r.Q
		case r.Name == "*":
			rest = r.Q
		}
	}
	switch {
	case name == Identity && rest != 0:
		return 1
	case rest > 0:
		return rest
	}
	return 0
}
