package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Kinds of log records that the demo reads; others are ignored.
const (
	kindStatement = "statement"
	kindDropped   = "dropped"
)

// A logRecord is the part of a line of the gateway's query log stream that the demo reads. The names are
// querylog's.
type logRecord struct {
	Kind string `json:"kind"`

	// Fields of a statement.
	Command          string        `json:"command"`
	Digest           string        `json:"digest"`
	Normalized       string        `json:"normalized"`
	NormalizedBase64 []byte        `json:"normalized_base64"` // used if it is not UTF-8
	Total            time.Duration `json:"total_ns"`
	RowsReturned     uint64        `json:"rows_returned"`
	RowsAffected     uint64        `json:"rows_affected"`
	ErrorNumber      uint16        `json:"error_number"`

	// Field of a dropped record: the number of records that the stream dropped.
	Records uint64 `json:"records"`
}

// text returns the normalized statement, or the command's name if there is none.
func (r *logRecord) text() string {
	switch {
	case r.Normalized != "":
		return r.Normalized
	case len(r.NormalizedBase64) != 0:
		return string(r.NormalizedBase64)
	}
	return "(" + r.Command + ")"
}

// openStream requests the gateway's query log. The stream ends when ctx is done.
func openStream(ctx context.Context, client *http.Client, base string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/debug/querylog?format=json", nil)
	if err != nil {
		return nil, fmt.Errorf("open the query log stream: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("open the query log stream: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("open the query log stream: %s: status %s", req.URL, resp.Status)
	}
	return resp.Body, nil
}

// readStream passes each record to add until the stream ends, which is an error unless ctx is done.
func readStream(ctx context.Context, stream io.Reader, add func(*logRecord)) error {
	dec := json.NewDecoder(stream)
	for {
		var r logRecord
		if err := dec.Decode(&r); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read the query log stream: %w", err)
		}
		add(&r)
	}
}
