package report_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/testwait"
)

func newReporter() (*report.Reporter, *bytes.Buffer) {
	var log bytes.Buffer
	return report.New(slog.New(slog.NewTextHandler(&log, nil))), &log
}

func explode() { panic("BUG: in explode") }

// TestHandler has handlers panic before and within their response; the server continues.
func TestHandler(t *testing.T) {
	r, log := newReporter()
	mux := http.NewServeMux()
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		explode()
	})
	mux.HandleFunc("/late", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 10))
		_ = http.NewResponseController(w).Flush()
		explode()
	})
	mux.HandleFunc("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/fine", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	s := httptest.NewServer(r.Handler(mux))
	defer s.Close()
	get := func(path string) (int, string, error) {
		res, err := s.Client().Get(s.URL + path)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res.StatusCode, string(b), err
	}
	if code, body, err := get("/early"); code != 500 || strings.Contains(body, "explode") || err != nil {
		t.Errorf("early: %d %q, %v", code, body, err)
	}
	if _, _, err := get("/late"); err == nil {
		t.Error("half a response looks like a whole one")
	}
	if _, _, err := get("/abort"); err == nil {
		t.Error("an aborted response looks like a whole one")
	}
	if code, body, err := get("/fine"); code != 200 || body != "fine" || err != nil {
		t.Errorf("fine: %d %q, %v", code, body, err)
	}
	text := log.String()
	if strings.Count(text, "level=ERROR") != 2 || strings.Count(text, "explode") < 4 || !strings.Contains(text, "request=/late") {
		t.Errorf("log: %s", text)
	}
	if n := testutil.ToFloat64(collector{r}); n != 2 {
		t.Errorf("%v panics are counted, want 2", n)
	}
}

// A collector has the HTTP series of a Reporter only.
type collector struct{ *report.Reporter }

func (c collector) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 2)
	c.Reporter.Collect(all)
	close(all)
	for m := range all {
		if strings.Contains(describe(m), "http") {
			ch <- m
		}
	}
}

type health struct {
	healthpb.UnimplementedHealthServer
}

func (health) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	explode()
	return nil, nil
}

func (health) Watch(*healthpb.HealthCheckRequest, healthpb.Health_WatchServer) error {
	explode()
	return nil
}

func TestGRPC(t *testing.T) {
	r, log := newReporter()
	s := grpc.NewServer(r.ServerOptions()...)
	healthpb.RegisterHealthServer(s, health{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		if err := testwait.Receive(t, "Serve to return", served); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := healthpb.NewHealthClient(conn)
	for range 2 {
		if _, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "explode") {
			t.Errorf("unary: %v", err)
		}
		stream, err := c.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Internal {
			t.Errorf("stream: %v", err)
		}
	}
	if strings.Count(log.String(), "level=ERROR") != 4 {
		t.Errorf("log: %s", log)
	}
}

// TestOnce reports a panic once, no matter how many layers see it.
func TestOnce(t *testing.T) {
	r, log := newReporter()
	e := panics.Recovered("x")
	r.HTTP(e, "/a")
	r.HTTP(e, "/b")
	if strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("log: %s", log)
	}
	var none *report.Reporter
	none.HTTP(panics.Recovered("y"), "/c")
}

func describe(m prometheus.Metric) string {
	var text dto.Metric
	if err := m.Write(&text); err != nil {
		return err.Error()
	}
	return text.String()
}
