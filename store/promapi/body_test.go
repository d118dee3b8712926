package promapi

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/testwait"
)

// TestUnfinishedBodies sends parts of bodies: each client is disconnected within WriteTimeout, and counted. A
// body in pieces is served, and so is the next request on its connection.
func TestUnfinishedBodies(t *testing.T) {
	none := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })
	start := func(timeout time.Duration) (*API, *httptest.Server) {
		api, err := New(Options{Queryable: none, WriteTimeout: timeout, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(api)
		t.Cleanup(server.Close)
		return api, server
	}
	api, server := start(time.Second) // within which also a busy machine writes a response
	paths := []string{"query", "query_range", "series", "labels", "read"}
	var clients []net.Conn
	for _, path := range paths {
		c := dialAPI(t, server)
		fmt.Fprintf(c, "POST /api/v1/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nquery=", path)
		clients = append(clients, c)
	}
	for n, path := range paths {
		response, err := http.ReadResponse(bufio.NewReader(clients[n]), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestTimeout || !response.Close {
			t.Errorf("%s: %s, closed: %v", path, response.Status, response.Close)
		}
	}
	testwait.Equal(t, "each client to be counted as cut", uint64(len(paths)), func() uint64 { return api.Responses().Cut })
	_, server = start(time.Hour)
	c := dialAPI(t, server)
	responses := bufio.NewReader(c)
	for range 2 {
		fmt.Fprint(c, "POST /api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n")
		for _, piece := range []string{"quer", "y=1", "e1"} {
			fmt.Fprint(c, piece)
		}
		response, err := http.ReadResponse(responses, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("in pieces: %s, %v", response.Status, err)
		}
	}
}

func dialAPI(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(testwait.Limit)); err != nil {
		t.Fatal(err)
	}
	return c
}
