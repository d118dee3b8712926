package testpromql

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A Probe is a request whose responses a test compares.
type Probe interface {
	fmt.Stringer

	// Do sends the request to the server at base, a URL without a path.
	Do(ctx context.Context, client *http.Client, base string) Response
}

// A Response is the result of a Probe.
type Response struct {
	Code     int    // 0: there was no response, or it was truncated
	Kind     string // Content-Type
	Body     string // for a successful remote read: its decoded samples
	Warnings string // for a remote read; those of JSON are in the body
	Err      error  // reason why Code is 0
}

// String returns the response in readable form.
func (r Response) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("%d %s\n%s%.2000s", r.Code, r.Kind, r.Warnings, r.Body)
}

// Do implements Probe.
func (r Request) Do(ctx context.Context, client *http.Client, base string) Response {
	method, target, body := http.MethodGet, base+"/api/v1/"+r.target(), io.Reader(nil)
	if r.Post {
		method, target, body = http.MethodPost, base+"/api/v1/"+r.Path, strings.NewReader(r.Form.Encode())
	}
	q, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return Response{Err: err}
	}
	if r.Post {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return Exchange(client, q)
}

// Exchange sends a request of the HTTP API and returns its response.
func Exchange(client *http.Client, q *http.Request) Response {
	response, text, err := exchange(client, q)
	if err != nil {
		return Response{Err: err}
	}
	return Response{Code: response.StatusCode, Kind: response.Header.Get("Content-Type"), Body: withSortedNotes(text)}
}

// exchange sends a request and returns the response with its whole body.
func exchange(client *http.Client, r *http.Request) (*http.Response, []byte, error) {
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	return response, text, err
}

// withSortedNotes returns a body with sorted warnings and infos: Prometheus' are in the order of a map.
func withSortedNotes(body []byte) string {
	var parts struct{ Warnings, Infos []string }
	if json.Unmarshal(body, &parts) != nil || len(parts.Warnings)+len(parts.Infos) == 0 {
		return string(body)
	}
	text := string(body)
	for _, list := range [][]string{parts.Warnings, parts.Infos} {
		before, err := json.Marshal(list)
		slices.Sort(list)
		after, err2 := json.Marshal(list)
		if err == nil && err2 == nil {
			text = strings.Replace(text, string(before), string(after), 1)
		}
	}
	return text
}

// Faulty describes the known faults of a server.
type Faulty struct {
	Bucket  string   // named by errors
	Blocks  []string // warnings and errors name one of them
	Damaged bool     // bytes of blocks and of listings may be permanently wrong
	Over    bool     // the faults are over: a request that fails has to be repeated
}

// An Outcome classifies a response under faults.
type Outcome string

// The outcomes.
const (
	Equal  Outcome = "equal"  // the response without faults
	Warned Outcome = "warned" // it names blocks that it lacks
	Failed Outcome = "failed" // an error that names the block, and the bucket unless the block is damaged
)

// Judge compares a response with that of a server without faults. The error describes the first defect.
func (f Faulty) Judge(want, got Response) (Outcome, error) {
	switch {
	case got == want:
		return Equal, nil
	case want.Code == http.StatusUnprocessableEntity && got.Code == want.Code:
		return Equal, nil // which of the mismatched series the error names depends on the order of a map
	case got.Err != nil:
		return f.judgeCut(got.Err)
	case got.Code == http.StatusOK:
		return f.judgeWarnings(got)
	}
	var parts struct{ ErrorType, Error string }
	if err := json.Unmarshal([]byte(got.Body), &parts); err != nil {
		parts.Error = got.Body // errors of a remote read are texts
	}
	block := f.names(parts.Error)
	unavailable := parts.ErrorType == "" || parts.ErrorType == "unavailable" || parts.ErrorType == "timeout"
	damaged := f.Damaged && (parts.ErrorType == "" || parts.ErrorType == "internal")
	switch {
	case !block:
		return "", fmt.Errorf("the error names no block: %s", got)
	case got.Code == http.StatusServiceUnavailable && unavailable && strings.Contains(parts.Error, "bucket "+f.Bucket):
		return Failed, nil
	case got.Code == http.StatusInternalServerError && damaged:
		return Failed, nil
	}
	return "", fmt.Errorf("not the error of a bucket that fails: %s", got)
}

// judgeCut classifies a truncated response: a stream is truncated if it has started.
func (f Faulty) judgeCut(err error) (Outcome, error) {
	if strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "INTERNAL_ERROR") {
		return Failed, nil
	}
	return "", fmt.Errorf("no response: %w", err)
}

func (f Faulty) judgeWarnings(got Response) (Outcome, error) {
	var parts struct{ Warnings []string }
	_ = json.Unmarshal([]byte(got.Body), &parts) // a remote read is not JSON
	for _, w := range append(parts.Warnings, got.Warnings) {
		if strings.Contains(w, "incomplete result") && f.names(w) {
			return Warned, nil
		}
	}
	return "", fmt.Errorf("a wrong response without a warning: %s", got)
}

// names reports whether a text names a block. A damaged listing can name a block that does not exist.
func (f Faulty) names(text string) bool {
	id := regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)
	return f.Damaged && id.MatchString(text) ||
		slices.ContainsFunc(f.Blocks, func(id string) bool { return strings.Contains(text, id) })
}
