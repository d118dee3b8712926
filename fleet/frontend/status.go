package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/visible"
)

const (
	// maxErrorText bounds the bytes of a downstream's error in the response.
	maxErrorText = 1 << 10

	// statusGone is the status of requests whose client disconnected. It is used in logs and metrics only.
	statusGone = 499
)

// A statusError is an error with the status of its response.
type statusError struct {
	Code       int
	Part       string // part whose response failed; "" for an error of the frontend
	Text       string
	RetryAfter string // value of the header; "" for none

	err error
}

func (e *statusError) Error() string {
	if e.Part == "" {
		return e.Text
	}
	return "shard " + e.Part + ": " + e.Text
}

// Unwrap returns the underlying error, if there is one.
func (e *statusError) Unwrap() error { return e.err }

func badRequest(err error) *statusError {
	return &statusError{Code: http.StatusBadRequest, Text: err.Error(), err: err}
}

// errTimeout is the cause of the context of a request that took too long, errDone that of a finished one.
var (
	errTimeout = errors.New("the request took too long")
	errDone    = errors.New("the request is over")
)

// statusOf returns the status for the error of a request whose context is ctx.
func (f *Frontend) statusOf(ctx context.Context, err error) *statusError {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return &statusError{Code: http.StatusGatewayTimeout, Text: fmt.Sprintf(
			"the response took longer than %v: use a narrower selector, or more shards", f.options.Timeout), err: err}
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s
	}
	if b, ok := errors.AsType[*activeseries.BudgetError](err); ok {
		return &statusError{Code: http.StatusRequestEntityTooLarge, Text: b.Error() + ": " + budgetAdvice(b.What), err: err}
	}
	if r, ok := errors.AsType[*activeseries.ReportedError](err); ok {
		return &statusError{Code: http.StatusBadGateway, Text: r.Error(), err: err}
	}
	if errors.Is(err, context.Canceled) {
		return &statusError{Code: statusGone, Text: "the client left", err: err}
	}
	return &statusError{Code: http.StatusBadGateway, Text: err.Error(), err: err}
}

func budgetAdvice(what string) string {
	switch what {
	case "duplicates":
		return "ask with a narrower selector; the server's option merge-bytes bounds it"
	case "counts":
		return "count by a label with fewer values, or ask with a narrower selector; the server's option merge-bytes bounds it"
	case "histograms":
		return "ask with a narrower selector; the server's option merge-bytes bounds it"
	}
	return "ask with a narrower selector, with limit=, or for counts with count_by=; the server's option response-bytes bounds it"
}

// errorOf returns the error that a downstream's response represents, or nil for a successful one, whose body
// it does not touch. Otherwise it closes the body.
func (x *exchange) errorOf(resp *http.Response, part string) error {
	if resp.StatusCode == http.StatusOK {
		if mediaType(resp.Header) != "text/html" {
			return nil
		}
		resp.Body.Close()
		return &statusError{Code: http.StatusBadGateway, Part: part, Text: "answered a page of HTML, not series: is the URL right?"}
	}
	defer resp.Body.Close()
	text := x.errorText(resp)
	e := &statusError{Code: resp.StatusCode, Part: part, Text: text, RetryAfter: resp.Header.Get("Retry-After")}
	switch {
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		e.Text = x.shardAdvice() + ": " + text
	case resp.StatusCode == http.StatusTooManyRequests && x.request.shards > 1:
		e.Text = fmt.Sprintf("%s (%d shards were asked at once; the header %s asks for fewer)", text, x.request.shards, shardingHeader)
	case resp.StatusCode < http.StatusBadRequest:
		e.Code, e.RetryAfter = http.StatusBadGateway, ""
		e.Text = fmt.Sprintf("returned the unexpected status %d: %s", resp.StatusCode, text)
	}
	return e
}

// shardAdvice returns advice about shards that are too large.
func (x *exchange) shardAdvice() string {
	n := x.request.shards
	most := x.f.options.MaxShards
	if most > 0 && n >= most {
		return fmt.Sprintf("a shard of %d is too large, and more shards are not allowed: ask with a narrower selector or count_by=", n)
	}
	advice := fmt.Sprintf("shard count too low: ask for more than %d with the header %s", n, shardingHeader)
	if most > 0 {
		advice += fmt.Sprintf(", %d at most", most)
	}
	return advice
}

// errorText returns the text of a downstream's error: the error field of Prometheus' JSON, or the body.
func (x *exchange) errorText(resp *http.Response) string {
	b, release := x.plainBody(resp)
	defer release()
	text, err := io.ReadAll(io.LimitReader(b, 16*maxErrorText))
	status := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if len(text) == 0 {
		if err != nil {
			return fmt.Sprintf("%s (its text cannot be read: %v)", status, err)
		}
		return status
	}
	var result struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	switch {
	case mediaType(resp.Header) == "text/html":
		return status + " (a page of HTML)"
	case json.Unmarshal(text, &result) == nil && result.Error != "":
		return truncateText(result.Error)
	case result.Message != "":
		return truncateText(result.Message)
	}
	return truncateText(strings.TrimSpace(string(text)))
}

// truncateText returns the start of a foreign text, made safe to display.
func truncateText(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) > maxErrorText {
		n := maxErrorText
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text)
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// writeError responds with an error in the format of Prometheus' HTTP API.
func writeError(w http.ResponseWriter, e *statusError) {
	h := w.Header()
	h.Del("Content-Encoding")
	h.Del("Trailer")
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter != "" {
		h.Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(e.Code)
	body, err := visible.MarshalJSON(struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", errorType(e.Code), e.Error()})
	if err != nil {
		panic("BUG: marshal an error: " + err.Error())
	}
	_, _ = w.Write(append(body, '\n')) // a failed write means that the client disconnected
}

// errorType returns Prometheus' error type for a status.
func errorType(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "bad_data"
	case http.StatusUnprocessableEntity:
		return "execution"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusNotAcceptable:
		return "not_acceptable"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusTooManyRequests:
		return "too_many_requests"
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return "unavailable"
	case http.StatusGatewayTimeout:
		return "timeout"
	case statusGone:
		return "canceled"
	}
	if code >= 500 {
		return "internal"
	}
	return "bad_data"
}
