package remotewrite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	password = "swordfish-in-url"
	token    = "swordfish-in-file"
)

// A bench is a database, a receiver that a test scripts, and a sender between them.
type bench struct {
	*testing.T
	db      *localdb.Database
	until   int64
	now     time.Time
	respond func(w http.ResponseWriter, r *http.Request, m *writev2.Request)
	log     bytes.Buffer
	options Options
	sender  *Sender
}

func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{T: t, now: time.UnixMilli(1_700_000_000_000)}
	db, err := localdb.OpenHead(t.TempDir(), slog.New(slog.DiscardHandler), nil, nil)
	b.must(err)
	b.db = localdb.NewDatabase(db)
	t.Cleanup(func() { b.must(localdb.CloseDB(b.db.Current())) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var packed bytes.Buffer
		if _, err := packed.ReadFrom(r.Body); err != nil {
			t.Error(err)
		}
		text, err := s2.Decode(nil, packed.Bytes())
		if err != nil {
			t.Error(err)
		}
		m := &writev2.Request{}
		if r.Header.Get("Content-Type") != "application/x-protobuf" {
			if err := m.Unmarshal(text); err != nil {
				t.Error(err)
			}
		}
		b.respond(w, r, m)
	}))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL + "/api/v1/write")
	b.must(err)
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(&b.log, nil))
	b.options = Options{
		Receiver:  Receiver{URL: to, Backoff: time.Millisecond},
		Instances: func() []Instance { return []Instance{{Name: "a", Samples: b.db, Until: b.until}} },
		File:      filepath.Join(dir, "remote-write.json"), State: localstate.Open(dir, nil, log),
		Now: func() time.Time { return b.now }, Log: log,
	}
	if change != nil {
		change(&b.options)
	}
	b.open()
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) open() {
	b.Helper()
	var err error
	b.sender, err = New(b.options)
	b.must(err)
}

// write appends a float and a histogram at the current time, and lets 15 seconds go by.
func (b *bench) write() {
	b.Helper()
	app := b.db.Current().AppenderV2(b.Context())
	at := b.now.UnixMilli()
	_, err := app.Append(0, labels.FromStrings("__name__", "tare_digest_info", "text", "SELECT ?"), 0, at, 1, nil, nil, storage.AOptions{})
	b.must(err)
	_, err = app.Append(0, labels.FromStrings("__name__", "tare_query_duration_seconds"), 0, at, 0, tsdbutil.GenerateTestHistogram(int64(at%1000+1)), nil, storage.AOptions{})
	b.must(err)
	b.must(app.Commit())
	b.until = at
	b.now = b.now.Add(15 * time.Second)
}

// take confirms a request.
func take(w http.ResponseWriter, m *writev2.Request) { confirm(w, m, 1, 1) }

// confirm confirms parts of a request.
func confirm(w http.ResponseWriter, m *writev2.Request, samples, histograms int) {
	ns, nh := 0, 0
	for _, s := range m.Timeseries {
		ns += len(s.Samples) * samples
		nh += len(s.Histograms) * histograms
	}
	w.Header().Set(headerSamples, jsonText(ns))
	w.Header().Set(headerHistograms, jsonText(nh))
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// metrics checks values of the collector.
func (b *bench) metrics(want string) {
	b.Helper()
	if err := testutil.CollectAndCompare(NewCollector(b.sender), strings.NewReader(want), namesIn(want)...); err != nil {
		b.Error(err)
	}
}

func namesIn(text string) (names []string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	return names
}

// TestResponses sends one window to receivers that respond in different ways, and shows what is counted and logged.
func TestResponses(t *testing.T) {
	status := func(code int, text string) func(http.ResponseWriter, *http.Request, *writev2.Request) {
		return func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) { http.Error(w, text, code) }
	}
	for _, test := range []struct {
		name    string
		version Version
		respond func(http.ResponseWriter, *http.Request, *writev2.Request)
		retried bool      // the window is sent until another response comes
		counts  [5]uint64 // floats, histograms, repeated, rejected, dropped
		log     string
	}{
		{"taken", V2, func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) { take(w, m) }, false, [5]uint64{1, 1}, ""},
		{"taken, 1.0", V1, func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) { w.WriteHeader(204) }, false, [5]uint64{1, 1}, ""},
		{"histograms dropped", V2, func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) { confirm(w, m, 1, 0) }, false, [5]uint64{1, 0, 0, 0, 1}, "dropped native histograms"},
		{"all dropped", V2, func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) { confirm(w, m, 0, 0) }, false, [5]uint64{0, 0, 0, 0, 2}, "dropped native histograms"},
		{"rejected in part", V2, func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
			confirm(w, m, 1, 0)
			http.Error(w, "out of bounds", 400)
		}, false, [5]uint64{1, 0, 0, 1}, "out of bounds"},
		{"rejected by Thanos", V2, func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
			confirm(w, m, 0, 0)
			http.Error(w, "conflict", http.StatusConflict)
		}, false, [5]uint64{0, 0, 0, 2}, "HTTP status 409"},
		{"does not confirm", V2, func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) { w.WriteHeader(200) }, true, [5]uint64{}, "try version 1.0"},
		{"not a receiver", V2, status(400, "an HTTP request to an HTTPS server"), true, [5]uint64{}, "check the scheme"},
		{"other version", V2, status(415, "unsupported"), true, [5]uint64{}, "other version"},
		{"wrong password", V2, status(401, "who?"), true, [5]uint64{}, "check user, password"},
		{"wrong path", V2, status(404, "page not found"), true, [5]uint64{}, "check the path"},
		{"redirect", V2, func(w http.ResponseWriter, r *http.Request, _ *writev2.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, true, [5]uint64{}, "redirects are not followed"},
		{"small proxy", V2, status(413, "too large"), true, [5]uint64{}, "1 MiB"},
		{"overload", V2, status(429, "slow down"), true, [5]uint64{}, "slow down"},
		{"down", V2, status(503, "maintenance"), true, [5]uint64{}, "maintenance"},
		{"no response", V2, func(http.ResponseWriter, *http.Request, *writev2.Request) { panic(http.ErrAbortHandler) }, true, [5]uint64{}, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Receiver.Version = test.version })
			ctx, cancel := context.WithCancel(t.Context())
			requests := 0
			b.respond = func(w http.ResponseWriter, r *http.Request, m *writev2.Request) {
				if requests++; requests == 3 {
					cancel()
				}
				test.respond(w, r, m)
			}
			b.write()
			b.sender.CatchUp(ctx)
			if retried := requests > 1; retried != test.retried {
				t.Errorf("%d requests", requests)
			}
			c := &b.sender.counts
			if got := [5]uint64{c.floats.Load(), c.histograms.Load(), c.repeated.Load(), c.rejected.Load(), c.dropped.Load()}; got != test.counts {
				t.Errorf("counts are %d, want %d", got, test.counts)
			}
			if lost, want := len(b.sender.Lost()), test.counts[3]+test.counts[4] > 0; lost > 0 != want {
				t.Errorf("%d lost ranges", lost)
			}
			if !strings.Contains(b.log.String(), test.log) || test.log == "" && b.log.Len() > 0 {
				t.Errorf("log:\n%swant %q", b.log.String(), test.log)
			}
			if !test.retried {
				return
			}
			b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) { take(w, m) }
			b.sender.CatchUp(t.Context())
			b.metrics(`
# HELP tare_history_remote_write_sent_samples_total Samples that the receiver has taken.
# TYPE tare_history_remote_write_sent_samples_total counter
tare_history_remote_write_sent_samples_total{kind="float"} 1
tare_history_remote_write_sent_samples_total{kind="histogram"} 1
# HELP tare_history_remote_write_unsent_seconds Age of the oldest sample not taken yet; 0 if there is none.
# TYPE tare_history_remote_write_unsent_seconds gauge
tare_history_remote_write_unsent_seconds 0
`)
		})
	}
}

// TestSecrets sends with each kind of credentials, and looks for them in logs.
func TestSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Receiver)
		want   string
	}{
		{"basic", func(r *Receiver) { r.URL.User = url.UserPassword("tare", password) }, "Basic dGFyZTpzd29yZGZpc2gtaW4tdXJs"},
		{"bearer", func(r *Receiver) { r.TokenFile = file }, "Bearer " + token},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { test.change(&o.Receiver); o.Receiver.Tenant = "team-a" })
			fail := true
			b.respond = func(w http.ResponseWriter, r *http.Request, m *writev2.Request) {
				if got := r.Header.Get("Authorization"); got != test.want {
					t.Errorf("Authorization is %q, want %q", got, test.want)
				}
				if got := r.Header.Get(headerTenant); got != "team-a" {
					t.Errorf("the tenant is %q", got)
				}
				if fail {
					fail = false
					panic(http.ErrAbortHandler)
				}
				take(w, m)
			}
			b.write()
			b.sender.CatchUp(t.Context())
			if !strings.Contains(b.log.String(), "remote write failed") {
				t.Errorf("the failure was not logged:\n%s", b.log.String())
			}
			for _, secret := range []string{"swordfish", "c3dvcmRmaXNo"} {
				if strings.Contains(b.log.String(), secret) {
					t.Errorf("the log has a secret:\n%s", b.log.String())
				}
			}
		})
	}
}

// TestContents decodes a request by Prometheus' decoder and compares the samples.
func TestContents(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Metadata = func(metric string) (model.MetricType, string) {
			if metric == "tare_digest_info" {
				return model.MetricTypeGauge, "1; text of a digest."
			}
			return model.MetricTypeHistogram, "Durations."
		}
	})
	var got []string
	b.respond = func(w http.ResponseWriter, r *http.Request, m *writev2.Request) {
		if r.Header.Get("Content-Encoding") != "snappy" || r.Header.Get(headerVersion) != "2.0.0" {
			t.Errorf("headers: %v", r.Header)
		}
		builder := labels.NewScratchBuilder(0)
		for _, s := range m.Timeseries {
			ls, err := s.ToLabels(&builder, m.Symbols)
			b.must(err)
			meta, err := s.ToMetadata(m.Symbols)
			b.must(err)
			text := ls.String() + " " + string(meta.Type) + " " + meta.Help
			for _, v := range s.Samples {
				text = fmt.Sprint(text, " ", jsonText([]any{v.Timestamp, v.Value}))
			}
			for _, h := range s.Histograms {
				if want := tsdbutil.GenerateTestHistogram(1); !h.ToIntHistogram().Equals(want) {
					t.Errorf("histogram is %v, want %v", h.ToIntHistogram(), want)
				}
				text += " " + jsonText(h.Timestamp)
			}
			got = append(got, text)
		}
		take(w, m)
	}
	b.write()
	b.sender.CatchUp(t.Context())
	want := []string{
		`{__name__="tare_digest_info", text="SELECT ?"} gauge 1; text of a digest. [1700000000000,1]`,
		`{__name__="tare_query_duration_seconds"} histogram Durations. 1700000000000`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPosition opens senders over files of the position in different states.
func TestPosition(t *testing.T) {
	b := newBench(t, nil)
	sent := 0
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
		sent += len(m.Timeseries)
		take(w, m)
	}
	expect := func(when string, want int) {
		t.Helper()
		sent = 0
		b.sender.CatchUp(t.Context())
		if sent != want {
			t.Errorf("%s: %d series were sent, want %d", when, sent, want)
		}
	}
	b.write()
	expect("a new history", 2)
	b.write()
	b.open()
	expect("a restart", 2)
	b.open()
	expect("nothing new", 0)
	b.write()
	b.must(os.WriteFile(b.options.File, []byte(`{"version":2,"instances":{}}`), 0o600))
	b.open()
	expect("a file of a later version", 0)
	b.write()
	b.must(os.WriteFile(b.options.File, []byte("{}"), 0o600))
	b.open()
	expect("a damaged file", 0)
	if !strings.Contains(b.log.String(), "local state lost") {
		t.Errorf("a damaged file was not reported:\n%s", b.log.String())
	}
	b.write()
	b.must(os.Remove(b.options.File))
	b.open()
	expect("no file", 0)
	b.write()
	expect("after it", 2)
}

// TestDeletedUnsent deletes samples before they were sent.
func TestDeletedUnsent(t *testing.T) {
	b := newBench(t, nil)
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) { take(w, m) }
	b.write()
	b.sender.CatchUp(t.Context())
	from := b.until
	ctx, cancel := context.WithCancel(t.Context())
	b.respond = func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) {
		cancel()
		http.Error(w, "down", http.StatusServiceUnavailable)
	}
	b.write()
	known := b.until
	b.sender.CatchUp(ctx)
	b.now = b.now.Add(3 * time.Hour)
	other, err := localdb.OpenHead(t.TempDir(), slog.New(slog.DiscardHandler), nil, nil)
	b.must(err)
	b.must(b.db.Replace(func() (*tsdb.DB, error) { return other, nil }))
	b.write()
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) { take(w, m) }
	b.sender.CatchUp(t.Context())
	lost := b.sender.Lost()
	if len(lost) != 1 || lost[0].From.UnixMilli() != from || lost[0].To.UnixMilli() != known {
		t.Fatalf("lost: %+v, want %d to %d", lost, from, known)
	}
	b.metrics(`
# HELP tare_history_remote_write_lost_seconds_total Length of the ranges that were deleted before they could be sent.
# TYPE tare_history_remote_write_lost_seconds_total counter
tare_history_remote_write_lost_seconds_total 15
`)
	b.open()
	if got := b.sender.Lost(); len(got) != 1 || got[0] != lost[0] {
		t.Errorf("lost ranges of the file: %+v, want %+v", got, lost)
	}
}

// TestFuture holds samples that are ahead of the clock until it has come to them.
func TestFuture(t *testing.T) {
	b := newBench(t, nil)
	sent := 0
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
		sent += len(m.Timeseries)
		take(w, m)
	}
	b.now = b.now.Add(2 * time.Hour)
	b.write()
	b.now = b.now.Add(-2 * time.Hour)
	b.sender.CatchUp(t.Context())
	if sent != 0 {
		t.Fatalf("%d series of the future were sent", sent)
	}
	b.now = b.now.Add(2 * time.Hour)
	b.sender.CatchUp(t.Context())
	if sent != 2 {
		t.Fatalf("%d series were sent, want 2", sent)
	}
}

// TestStaleness sends the markers of both kinds.
func TestStaleness(t *testing.T) {
	e := newEncoder(V2, nil)
	e.begin()
	e.float(5, math.Float64frombits(0x7ff0000000000002))
	e.histogram(6, &histogram.Histogram{Sum: math.Float64frombits(0x7ff0000000000002)})
	e.end(labels.FromStrings("__name__", "x"))
	e.finish()
	m := &writev2.Request{}
	if err := m.Unmarshal(e.requests[0].body); err != nil {
		t.Fatal(err)
	}
	s := m.Timeseries[0]
	if v := math.Float64bits(s.Samples[0].Value); v != 0x7ff0000000000002 {
		t.Errorf("the value is %x", v)
	}
	if v := math.Float64bits(s.Histograms[0].ToIntHistogram().Sum); v != 0x7ff0000000000002 {
		t.Errorf("the sum is %x", v)
	}
}

// TestSymbolsFirst expects each request of 2.0 to have its symbols before the series: Mimir refuses others.
func TestSymbolsFirst(t *testing.T) {
	e := newEncoder(V2, nil)
	for n := range 5000 { // several requests
		e.begin()
		e.float(int64(n), 1)
		e.end(labels.FromStrings("__name__", "x", "n", strconv.Itoa(n)))
	}
	e.finish()
	if len(e.requests) < 3 {
		t.Fatalf("%d requests", len(e.requests))
	}
	for i, r := range e.requests {
		symbols, series := 0, 0
		for rest := r.body; len(rest) > 0; {
			number, kind, n := protowire.ConsumeTag(rest)
			m := protowire.ConsumeFieldValue(number, kind, rest[max(n, 0):])
			if n < 0 || m < 0 {
				t.Fatalf("request %d: a field that cannot be read", i)
			}
			rest = rest[n+m:]
			switch {
			case number == requestSeriesV2:
				series++
			case number == requestSymbolsV2 && series == 0:
				symbols++
			default:
				t.Fatalf("request %d: field %d after %d symbols and %d series", i, number, symbols, series)
			}
		}
		if symbols != 3+series+1 || series != r.samples { // "", two names, "x", and a value of each
			t.Errorf("request %d: %d symbols, %d series, %d samples", i, symbols, series, r.samples)
		}
	}
}
