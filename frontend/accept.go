package frontend

import (
	"mime"
	"net/http"
	"strings"

	"github.com/taredb/tare/activeseries"
)

// An acceptRange is an element of Accept or Accept-Encoding: a name in lower case, without parameters, and
// its weight in thousandths.
type acceptRange struct {
	name string
	q    int
}

// parseAccept parses the elements of such a header (RFC 9110, sections 12.4.2 and 12.5). An element with an
// invalid weight counts as refused, so that no client receives a coding that it may not support.
func parseAccept(values []string) []acceptRange {
	var ranges []acceptRange
	for _, value := range values {
		for element := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(element, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" {
				continue
			}
			r := acceptRange{name, 1000}
			for p := range strings.SplitSeq(parameters, ";") {
				key, text, _ := strings.Cut(p, "=")
				if strings.EqualFold(strings.TrimSpace(key), "q") {
					r.q = parseWeight(strings.TrimSpace(text))
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

const jsonType = "application/json"

// chooseType returns the offered media type that a request prefers, the first of equals. ok is false if it
// accepts none. Without an Accept header it accepts all.
func chooseType(h http.Header, offered ...string) (mediaType string, ok bool) {
	ranges := parseAccept(h.Values("Accept"))
	if len(ranges) == 0 {
		return offered[0], true
	}
	best := 0
	for _, candidate := range offered {
		if q := typeWeight(ranges, candidate); q > best {
			mediaType, best = candidate, q
		}
	}
	return mediaType, best > 0
}

// typeWeight returns the weight of the most specific range that contains the type.
func typeWeight(ranges []acceptRange, mediaType string) int {
	major, _, _ := strings.Cut(mediaType, "/")
	q, specific := 0, 0
	for _, r := range ranges {
		s := 0
		switch r.name {
		case mediaType:
			s = 3
		case major + "/*":
			s = 2
		case "*/*":
			s = 1
		}
		if s > specific {
			q, specific = r.q, s
		}
	}
	return q
}

// acceptsEnd reports whether a request that accepts frames also accepts their end record.
func acceptsEnd(h http.Header) bool {
	for _, value := range h.Values("Accept") {
		for element := range strings.SplitSeq(value, ",") {
			if formOf(element) == activeseries.FormFramedEnd {
				return true
			}
		}
	}
	return false
}

// formOf returns the form of a body with this Content-Type. An unknown one is treated as JSON, which fails
// later if it is not.
func formOf(contentType string) activeseries.Form {
	t, parameters, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil || t != activeseries.ContentTypeFramed:
		return activeseries.FormJSON
	case parameters["end"] == "1":
		return activeseries.FormFramedEnd
	}
	return activeseries.FormFramed
}
