package frontend

import (
	"mime"
	"net/http"
	"strings"

	"github.com/taredb/tare/activeseries"
)

// An acceptRange is an element of Accept or Accept-Encoding: a name in lower case, without
// parameters, and its weight in thousandths.
type acceptRange struct {
	name string
	q    int
}

// parseAccept reads the elements of such a header (RFC 9110, sections 12.4.2 and 12.5). An element
// whose weight cannot be read counts as refused: nobody is sent what he may not be able to read.
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

// parseWeight reads a qvalue of at most three digits behind the point.
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

// chooseType is the media type of those offered that a request wants most, the first of equals; ok
// is false when it takes none. Without an Accept it takes all.
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

// typeWeight is the weight of the most specific range that has the type.
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

// acceptsEnd reports whether a request that accepts frames wants their end record.
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

// formOf is the form of a body of this Content-Type; one that nobody knows is JSON, or turns out not
// to be.
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
