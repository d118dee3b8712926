package querylog_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// get calls l's handler and returns the whole response.
func get(t *testing.T, l *querylog.Logger, query string) (status int, body []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	l.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/querylog?"+query, nil))
	return w.Code, w.Body.Bytes()
}

// TestHistory requests the ring's lines, in both formats, filtered and limited.
func TestHistory(t *testing.T) {
	l := mustNew(t, querylog.Options{Boot: "b"})
	for i := range 10 {
		r := sample()
		r.Total = time.Duration(i) * time.Millisecond
		if i%3 == 0 {
			r.ErrorNumber, r.ErrorText = 1062, []byte("Duplicate entry 'a\tb\xff' for key 'k'")
		}
		l.Log(r)
	}
	for _, c := range []struct {
		query string
		want  int
	}{
		{"for=0s", 10},
		{"for=0s&format=text", 10},
		{"for=0s&history=0", 0},
		{"for=0s&limit=3", 3},
		{"limit=7", 7},
		{"for=0s&filter=" + url.QueryEscape("total_ns>5ms"), 4},
		{"for=0s&filter=" + url.QueryEscape("total_ns<1"), 1},
		{"for=0s&filter=" + url.QueryEscape("error_number=1062"), 4},
		{"for=0s&filter=" + url.QueryEscape("error_number=0"), 6},
		{"for=0s&filter=" + url.QueryEscape("error_number!=0 total_ns>1ms"), 3},
		{"for=0s&filter=" + url.QueryEscape(`error_text~"a\tb\xff"`), 4},
		{"for=0s&filter=" + url.QueryEscape("user=nobody"), 0},
		{"for=0s&filter=" + url.QueryEscape("client~192.0.2.7 schema=shop command=Query normalized!~update"), 10},
	} {
		status, body := get(t, l, c.query)
		n, dropped := tally(t, body)
		if status != http.StatusOK || int(n) != c.want || dropped != 0 {
			t.Errorf("%s: status %d, %d lines and %d dropped, want %d", c.query, status, n, dropped, c.want)
		}
	}
	if l.Stats().Readers != 0 {
		t.Error("readers stay attached")
	}
	if st := sinkStats(t, l, "http"); st.Offered != st.Written || st.Written == 0 {
		t.Errorf("got %+v", st)
	}
}

func TestBadRequests(t *testing.T) {
	l := mustNew(t, querylog.Options{})
	for _, query := range []string{"format=xml", "filter=%3D", "for=x", "for=-1s", "limit=0", "limit=x", "history=x", "fro=1s", "for=1s&for=2s"} {
		status, body := get(t, l, query)
		if status != http.StatusBadRequest || len(body) < 10 || bytes.Contains(body, []byte("strconv")) || bytes.Contains(body, []byte("time:")) {
			t.Errorf("%s: status %d: %s", query, status, body)
		}
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodGet {
		t.Errorf("POST: %d", w.Code)
	}
	none := mustNew(t, querylog.Options{RingBytes: -1})
	if none.Enabled() {
		t.Error("a logger without sinks and ring is enabled")
	}
	if status, _ := get(t, none, ""); status != http.StatusNotFound {
		t.Errorf("without a ring: %d", status)
	}
}

// TestStreamFor streams for ten seconds while a record is logged every second, and receives the records of
// these ten seconds.
func TestStreamFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, querylog.Options{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				l.Log(sample())
				time.Sleep(time.Second)
			}
		}()
		time.Sleep(500 * time.Millisecond)
		_, body := get(t, l, "for=10s&history=0&format=text")
		if n, dropped := tally(t, body); n != 10 || dropped != 0 {
			t.Errorf("%d lines, %d dropped; want 10", n, dropped)
		}
		stop()
		<-done
	})
}

// TestStreamEnds checks that an unlimited stream ends with the logger.
func TestStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := querylog.New(querylog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte)
		go func() {
			_, body := get(t, l, "")
			got <- body
		}()
		synctest.Wait()
		l.Log(sample())
		mustClose(t, l)
		if n, _ := tally(t, <-got); n != 1 {
			t.Errorf("%d lines, want 1", n)
		}
	})
}

// A stuckResponse is a response writer that blocks until it is released.
type stuckResponse struct {
	tap
	header http.Header
}

func (w *stuckResponse) Header() http.Header { return w.header }
func (w *stuckResponse) WriteHeader(int)     {}
func (w *stuckResponse) FlushError() error   { return nil }

// TestSlowReader stops a reader while the ring is overwritten many times: the lines it receives and the
// reported number of missed lines add up.
func TestSlowReader(t *testing.T) {
	for _, f := range []querylog.Format{querylog.JSON, querylog.Text} {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mustNew(t, querylog.Options{RingBytes: 64 << 10})
				w := &stuckResponse{tap: *newTap(), header: http.Header{}}
				release := w.stick()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?for=1m&format="+f.String(), nil)
				done := make(chan struct{})
				go func() {
					defer close(done)
					l.ServeHTTP(w, req)
				}()
				const offered = 5000
				for i := range offered {
					r := sample()
					r.Start = time.Now()
					l.Log(r)
					if i%10 == 0 {
						time.Sleep(10 * time.Millisecond)
					}
				}
				time.Sleep(2 * time.Second)
				release()
				<-done
				statements, dropped := tally(t, w.bytes())
				if statements+dropped != offered || dropped == 0 || statements == 0 {
					t.Errorf("%d lines and %d dropped, want %d", statements, dropped, offered)
				}
				if st := sinkStats(t, l, "http"); st.Written != statements || st.Dropped != dropped || st.Offered != offered {
					t.Errorf("got %+v", st)
				}
				if st := sinkStats(t, l, "ring"); st.Offered != offered || st.Written != offered {
					t.Errorf("got %+v", st)
				}
			})
		})
	}
}

// TestReaderLeaves breaks the connection of a reader: the handler returns.
func TestReaderLeaves(t *testing.T) {
	l := mustNew(t, querylog.Options{})
	srv := httptest.NewServer(l)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Log(sample())
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "application/x-ndjson" {
		t.Errorf("content type %q", got)
	}
	line, err := bufio.NewReader(resp.Body).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	tally(t, line)
	cancel()
	testwait.Until(t, "the handler to notice", func() bool {
		l.Log(sample())
		return l.Stats().Readers == 0
	})
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the stream ended by itself")
	}
	srv.Client().CloseIdleConnections()
}
