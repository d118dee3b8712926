package copier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/throttle"
)

// controlTimeout bounds one request to a copy, which answers from memory.
const controlTimeout = 5 * time.Second

// A Control talks to a copy that runs, over its socket. It is safe for concurrent use.
type Control struct {
	path   string
	client *http.Client
}

// NewControl makes a Control for a socket. It connects when it is used.
func NewControl(path string) *Control {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Control{path: path, client: &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: controlTimeout}}
}

// Close closes the connection.
func (c *Control) Close() { c.client.CloseIdleConnections() }

// Status asks how far the copy is.
func (c *Control) Status(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodGet, "/v1/status", nil)
}

// Throttle changes limits.
func (c *Control) Throttle(ctx context.Context, change throttle.Change) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/throttle", change)
}

// Resume takes back what Throttle said of the share.
func (c *Control) Resume(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/resume", nil)
}

// Abort ends the copy now. The same command resumes it later.
func (c *Control) Abort(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/abort", nil)
}

// Finish ends a copy that follows its source, once the target has what the source has.
func (c *Control) Finish(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/finish", nil)
}

func (c *Control) do(ctx context.Context, method, path string, body any) (*telemetry.Status, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+controlHost+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("no copy listens at %s: it has ended, or was started with another --control-socket", c.path)
		}
		return nil, fmt.Errorf("ask the copy at %s: %w", c.path, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	const most = 16 << 20 // a status of very many tables
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("read the response of the copy at %s: %w", c.path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the copy at %s: %s", c.path, strings.TrimSpace(string(answer)))
	}
	var s telemetry.Status
	if err := json.Unmarshal(answer, &s); err != nil {
		return nil, fmt.Errorf("read the response of the copy at %s: %w", c.path, err)
	}
	return &s, nil
}
