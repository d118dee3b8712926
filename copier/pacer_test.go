package copier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/tick"
)

// pacerAt is a pacer that allows a share without asking anybody.
func pacerAt(t *testing.T, share float64) *pacer {
	t.Helper()
	p := newPacer(&Options{Observe: func(Event) {}})
	if err := p.change(ThrottleChange{Share: &share}); err != nil {
		t.Fatal(err)
	}
	return p
}

// batchesMoved has workers copy for a minute, and answers how many batches they did. A batch is read in a fifth of
// a millisecond and written in two, a bit longer by each worker; so many make a chunk, which is one statement
// unless there is a rest within it. When they serialise, a statement has a lock to its end, as LOAD DATA has it on
// AUTO_INCREMENT.
func batchesMoved(t *testing.T, share float64, workers, chunk int, serialise bool) (n int) {
	const minute = time.Minute
	synctest.Test(t, func(t *testing.T) {
		p := pacerAt(t, share)
		end := time.Now().Add(minute)
		lock := make(chan struct{}, 1)
		moved := make([]int, workers)
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				w := p.join()
				within := false // a statement
				settle := func() {
					if within && serialise {
						<-lock
					}
					within = false
				}
				for time.Now().Before(end) {
					if err := w.begin(t.Context()); err != nil {
						t.Error(err)
					}
					for range chunk {
						if !time.Now().Before(end) {
							break
						}
						time.Sleep(200 * time.Microsecond)
						if !within && serialise {
							lock <- struct{}{}
						}
						within = true
						time.Sleep(2*time.Millisecond + time.Duration(i)*50*time.Microsecond)
						moved[i]++
						if err := w.rest(t.Context(), settle); err != nil {
							t.Error(err)
						}
					}
					settle()
					w.end()
				}
			})
		}
		all.Wait()
		for i := range moved {
			n += moved[i]
		}
		for i := range moved {
			if moved[i] < n/workers/2-chunk { // turns are by chunks
				t.Errorf("worker %d did %d batches of %d", i, moved[i], n)
			}
		}
	})
	return n
}

// TestPacerKeepsTheShare has workers do as much of what they do at full speed as the share says, where they hinder
// each other, and no more where they do not.
func TestPacerKeepsTheShare(t *testing.T) {
	for _, tt := range []struct {
		workers, chunk int
		serialise      bool
	}{{1, 8, false}, {4, 8, false}, {4, 128, false}, {4, 8, true}, {4, 128, true}, {16, 8, true}} {
		full := batchesMoved(t, 1, tt.workers, tt.chunk, tt.serialise)
		for _, share := range []float64{1.0 / 64, 0.125, 0.3, 0.5, 0.69, 0.9} {
			got := float64(batchesMoved(t, share, tt.workers, tt.chunk, tt.serialise)) / float64(full)
			t.Logf("%+v at %.3g: %.3g", tt, share, got)
			least := 0.85 * share
			if !tt.serialise { // who is not held up by others could do more than those that are let in
				least *= math.Ceil(share*float64(tt.workers)) / float64(tt.workers)
			}
			if got < least || got > 1.15*share {
				t.Errorf("%+v: at a share of %.3g they did %.3g of their work", tt, share, got)
			}
		}
	}
}

// TestPacerChanges changes the share while workers are at it: nobody works while it is stopped, and what was done at
// full speed is not paid for. One that is within a long statement holds up nobody for long.
func TestPacerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacerAt(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var moved atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				w := p.join()
				defer w.end()
				for err := w.begin(ctx); err == nil; err = w.rest(ctx, func() {}) {
					time.Sleep(time.Millisecond)
					moved.Add(1)
				}
			})
		}
		after := func(share float64, d time.Duration, least, most int64) {
			t.Helper()
			if err := p.change(ThrottleChange{Share: &share}); err != nil {
				t.Fatal(err)
			}
			before := moved.Load()
			time.Sleep(d)
			if n := moved.Load() - before; n < least || n > most {
				t.Errorf("at %v: %d batches in %v, want %d to %d", share, n, d, least, most)
			}
		}
		after(1, time.Minute, 239_000, 240_004)
		after(0.5, time.Second, 1800, 2100)
		after(0, time.Hour, 0, 4)
		after(0.01, time.Minute, 2000, 2450)
		after(1, time.Second, 3900, 4004)

		stray := p.join()
		if err := stray.begin(ctx); err != nil {
			t.Fatal(err)
		}
		after(0.5, time.Minute, 800, 120_000)
		stray.end()
		after(0.5, time.Second, 1700, 2100)
		after(0, time.Second, 0, 4)
		cancel()
		all.Wait()
		if p.gate.working != 0 {
			t.Errorf("%d are within after all have ended", p.gate.working)
		}
	})
}

// TestAllocs has what is asked once a row, a change or a batch.
func TestAllocs(t *testing.T) {
	full, half := pacerAt(t, 1).join(), pacerAt(t, 0.5).join()
	if err := half.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	th := tick.NewThrottle(tick.Process(), half.mayGoOn)
	defer th.Close()
	alloctest.Run(t, append(applyAllocs(t), []alloctest.Case{
		{Name: "rest at full speed", Op: func() error { return full.rest(t.Context(), nil) }},
		{Name: "due at half speed", Op: func() error {
			half.p.gate.since = time.Now()
			if half.due() {
				return errors.New("a pause is due at once")
			}
			return nil
		}},
		{Name: "the throttle of a row", Op: func() error {
			if !th.OK() {
				return errors.New("no")
			}
			return nil
		}},
	}...))
}

// TestGatewaySource asks gateways of all kinds.
func TestGatewaySource(t *testing.T) {
	answer := `{"seconds": 10, "statements": 5, "p99_us": 12500}`
	code := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/api/v1/live" || user != "me" || password != "hunter2" {
			t.Errorf("%s as %s:%s", r.URL, user, password)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	source := &gatewaySource{(&Gateway{URL: strings.Replace(s.URL, "http://", "http://me:hunter2@", 1) + "/"}).client()}
	defer source.close()
	if v, err := source.figure(t.Context()); err != nil || v != 12.5 {
		t.Errorf("got %v ms, %v", v, err)
	}
	fails := func(want string) {
		t.Helper()
		if _, err := source.figure(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, answer = range []string{"", "{}", "[1]", `{"p99_us": "fast"}`} {
		fails("reports no p99: is it a tare serve?")
	}
	code = http.StatusUnauthorized
	fails("requires an account (401): use --gateway-token-file, or")
	s.Close()
	fails("connection refused")
}

// TestSQLSources asks servers for figures, and a replica for its lag.
func TestSQLSources(t *testing.T) {
	from := testmysql.Start(t, testmysql.WithBinlog())
	ask := func(cfg mysqlconn.Config, read sqlRead) (float64, error) {
		s := &sqlSource{cfg: cfg, read: read}
		defer s.close()
		return s.figure(t.Context())
	}
	if v, err := ask(root(from), readFigure("SHOW GLOBAL STATUS LIKE 'Threads_running'", 1)); err != nil || v < 1 {
		t.Errorf("Threads_running: %v, %v", v, err)
	}
	for sql, want := range map[string]string{
		"SELECT NULL": "NULL", "SELECT 'x'": `"x" is not a number`, "SELECT 'nan'": "is not a number",
		"SELECT 1 WHERE 1 = 0": "returns 0 rows", "SELECT 1 UNION SELECT 2": "returns 2 rows", "SELEC 1": "syntax",
	} {
		if v, err := ask(root(from), readFigure(sql, 0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", sql, v, err)
		}
	}
	if _, err := ask(root(from), readLag); err == nil || !strings.Contains(err.Error(), "not a replica") {
		t.Errorf("a server that is no replica: %v", err)
	}

	replica := testmysql.Start(t, testmysql.WithArgs("--server-id=2", "--relay-log=relay", "--skip-slave-start"))
	c := connect(t, root(replica))
	sqlExec(t, c, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', MASTER_PASSWORD = '%s'",
		from.Port(), testmysql.RootUser, testmysql.Password))
	if _, err := ask(root(replica), readLag); err == nil || !strings.Contains(err.Error(), "does not replicate now") {
		t.Errorf("a replica that is stopped: %v", err)
	}
	sqlExec(t, c, "START SLAVE")
	at := read(t, connect(t, root(from)), "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('binlog_snapshot_file', 'binlog_snapshot_position')")
	sqlExec(t, c, fmt.Sprintf("SELECT MASTER_POS_WAIT('%s', %s, 60)", strings.Trim(at[0], `["]`), strings.Trim(at[1], `["]`)))
	testwait.UntilState(t, "a replica that has caught up", func() (string, bool) { // it reports a lag for a moment longer
		v, err := ask(root(replica), readLag)
		return fmt.Sprint(v, err), err == nil && v == 0
	})
	sqlExec(t, c, "STOP SLAVE")
}
