package control

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

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// requestTimeout bounds one request. A copy responds from memory.
const requestTimeout = 5 * time.Second

// A Client sends requests to a running copy over its socket. It is safe for concurrent use.
type Client struct {
	path   string
	client *http.Client
}

// NewClient returns a Client for a socket. It connects on the first request.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{path: path, client: &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: requestTimeout}}
}

// Close closes idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// Status returns the status of the copy.
func (c *Client) Status(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodGet, "/v1/status", nil)
}

// Throttle changes the limits of the copy and returns its status.
func (c *Client) Throttle(ctx context.Context, change throttle.LimitChange) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/throttle", change)
}

// Resume reverts the rate set by Throttle and returns the copy's status.
func (c *Client) Resume(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/resume", nil)
}

// Abort stops the copy immediately. The same command resumes it later.
func (c *Client) Abort(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/abort", nil)
}

// Cancel stops an alteration, which removes all that it has created.
func (c *Client) Cancel(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/cancel", nil)
}

// Finish stops a copy that follows its source as soon as the target has caught up with the source.
func (c *Client) Finish(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/finish", nil)
}

// Proceed has a postponed swap of tables happen now.
func (c *Client) Proceed(ctx context.Context) (*telemetry.Status, error) {
	return c.do(ctx, http.MethodPost, "/v1/cutover", nil)
}

// Revert has swapped tables swapped back now. lossy permits that values are lost by it.
func (c *Client) Revert(ctx context.Context, lossy bool) (*telemetry.Status, error) {
	path := "/v1/revert"
	if lossy {
		path += "?lossy=true"
	}
	return c.do(ctx, http.MethodPost, path, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body any) (*telemetry.Status, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
			return nil, notRunning(c.path)
		}
		return nil, fmt.Errorf("ask the copy at %s: %w", c.path, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	const most = 16 << 20 // a status of very many tables
	response, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("read the response of the copy at %s: %w", c.path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the copy at %s: %s", c.path, strings.TrimSpace(string(response)))
	}
	var s telemetry.Status
	if err := json.Unmarshal(response, &s); err != nil {
		return nil, fmt.Errorf("read the response of the copy at %s: %w", c.path, err)
	}
	return &s, nil
}
