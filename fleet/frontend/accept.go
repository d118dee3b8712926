package frontend

import (
	"mime"
	"net/http"
	"strings"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/accept"
)

const jsonType = "application/json"

// chooseType returns the offered media type that a request prefers, the first of equals. ok is false if it
// accepts none. Without an Accept header it accepts all.
func chooseType(h http.Header, offered ...string) (mediaType string, ok bool) {
	ranges := accept.Parse(h.Values("Accept"))
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
func typeWeight(ranges []accept.Range, mediaType string) int {
	major, _, _ := strings.Cut(mediaType, "/")
	q, specific := 0, 0
	for _, r := range ranges {
		s := 0
		switch r.Name {
		case mediaType:
			s = 3
		case major + "/*":
			s = 2
		case "*/*":
			s = 1
		}
		if s > specific {
			q, specific = r.Q, s
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
