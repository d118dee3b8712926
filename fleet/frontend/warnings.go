package frontend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/taredb/tare/fleet/activeseries"
)

// warningHeaders are the headers in which a downstream reports that its response is incomplete: that of Tare's remote read
// and of other frontends, and that of RFC 7234, which proxies add.
var warningHeaders = [...]string{warningsHeader, "Warning"}

const warningsHeader = "X-Query-Warnings"

// maxWarnings bounds the warnings in the header of a response, each of activeseries.MaxWarningText bytes and a name.
const maxWarnings = 32

// addWarnings adds warnings to field key of the client's header or trailer: those with names, and those in the headers and
// trailers of responses. It omits those that the header has.
func addWarnings(h http.Header, key string, named []string, responses []*http.Response) {
	n := 0
	add := func(text string) {
		text = trailerText(text)
		if slices.Contains(h.Values(warningsHeader), text) || slices.Contains(h.Values(key), text) {
			return
		}
		if n++; n <= maxWarnings {
			h.Add(key, text)
		}
	}
	for _, text := range named {
		add(text)
	}
	for _, r := range responses {
		for _, name := range warningHeaders {
			for _, text := range append(r.Header.Values(name), r.Trailer.Values(name)...) {
				add(partName(r) + ": " + truncateWarning(text))
			}
		}
	}
	if n > maxWarnings {
		h.Add(key, fmt.Sprintf("%d more warnings", n-maxWarnings))
	}
}

// addLateWarnings adds what is known after the bodies were read: to the header, or to the trailer if the header was sent.
func addLateWarnings(h *bufferedWriter, named []string, responses []*http.Response) {
	header, key := h.w.Header(), warningsHeader
	if h.sent {
		key = http.TrailerPrefix + key
	} else {
		header.Del(key)
	}
	addWarnings(header, key, named, responses)
}

// bodyWarnings returns what a member of a body says about its completeness.
func bodyWarnings(name string, value json.RawMessage) ([]string, error) {
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, fmt.Errorf("write a name again: %w", err)
	}
	d := activeseries.NewDecoder(activeseries.Stdlib)
	d.Reset(io.MultiReader(strings.NewReader("{"), bytes.NewReader(quoted), strings.NewReader(":"), bytes.NewReader(bytes.ToValidUTF8(value, []byte("\ufffd"))), strings.NewReader(`,"data":null}`)))
	if _, _, err = d.Next(); err == io.EOF { //nolint:errorlint // wrapped, it is an error of reading and no end
		err = nil
	}
	return d.Warnings(), err
}

// truncateWarning bounds a warning in a header like those in bodies.
func truncateWarning(text string) string {
	if len(text) > activeseries.MaxWarningText {
		text = strings.ToValidUTF8(text[:activeseries.MaxWarningText], "")
	}
	return text
}

// partName returns the name of the part that a response is of.
func partName(r *http.Response) string {
	if b, ok := r.Body.(*partBody); ok {
		return "shard " + b.part.name
	}
	return "a shard"
}
