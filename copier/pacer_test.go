package copier

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testmysql"
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

// TestPacerKeepsTheShare lets workers work in slices of two milliseconds for some minutes: together
// they work for the share of it, and each of them comes to its turn.
func TestPacerKeepsTheShare(t *testing.T) {
	const minutes, slice, slicesAStep = 5 * time.Minute, 2 * time.Millisecond, 500
	for _, share := range []float64{0.05, 0.3, 0.5, 0.75, 1} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%v of %d", share, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := pacerAt(t, share)
					end := time.Now().Add(minutes)
					worked, steps := make([]time.Duration, workers), make([]int, workers)
					var all sync.WaitGroup
					for i := range workers {
						all.Go(func() {
							w := p.join()
							th := tick.NewThrottle(tick.New(tick.Interval), w.mayGoOn)
							defer th.Close()
							for time.Now().Before(end) {
								if err := w.begin(t.Context()); err != nil {
									t.Error(err)
								}
								for range slicesAStep {
									if err := errors.Join(th.Wait(t.Context()), w.rest(t.Context())); err != nil {
										t.Error(err)
									}
									time.Sleep(slice)
									worked[i] += slice
								}
								steps[i]++
								w.end()
							}
						})
					}
					all.Wait()
					var sum time.Duration
					for i := range workers {
						sum += worked[i]
						if steps[i] < 2 {
							t.Errorf("worker %d did %d steps", i, steps[i])
						}
					}
					if got := float64(sum) / float64(minutes) / float64(workers); got < 0.8*share || got > 1.1*share+0.01 {
						t.Errorf("they worked %.3f of the time, want %v", got, share)
					}
				})
			})
		}
	}
}

func TestRestAfter(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		worked time.Duration
		share  float64
		busy   int
		within int
		want   time.Duration
	}{
		{10 * ms, 1, 4, 4, 0},
		{10 * ms, 0.5, 4, 2, 0},                     // two of four, all of the time
		{10 * ms, 0.375, 4, 2, 3.333 * 1000 * 1000}, // two of four, three quarters of it
		{10 * ms, 0.25, 4, 4, 30 * ms},              // four that had begun before, a quarter of it
		{10 * ms, 0.5, 4, 1, 0},
		{10 * ms, 0.25, 1, 1, 30 * ms},
		{time.Hour, 0.5, 1, 1, longestSlice},
		{time.Hour, 0.01, 1, 1, longestPause},
		{10 * ms, 0, 1, 1, 0}, // who stands still rests elsewhere
	} {
		if got := restAfter(tt.worked, tt.share, tt.busy, tt.within); got.Round(10*time.Microsecond) != tt.want.Round(10*time.Microsecond) {
			t.Errorf("after %v at %v of %d: got %v, want %v", tt.worked, tt.share, tt.busy, got, tt.want)
		}
	}
}

// TestAllocs has what is asked once a row, a change or a batch.
func TestAllocs(t *testing.T) {
	full, half := pacerAt(t, 1).join(), pacerAt(t, 0.5).join()
	half.want()
	th := tick.NewThrottle(tick.Process(), half.mayGoOn)
	defer th.Close()
	alloctest.Run(t, append(applyAllocs(t), []alloctest.Case{
		{Name: "rest at full speed", Op: func() error { return full.rest(t.Context()) }},
		{Name: "mayGoOn at half speed", Op: func() error {
			if !half.mayGoOn() {
				return errors.New("the only one may not go on")
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
	source := newGatewaySource(strings.Replace(s.URL, "http://", "http://me:hunter2@", 1) + "/")
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
		fails("tells no p99: is it a tare serve?")
	}
	code = http.StatusUnauthorized
	fails("answers 401 Unauthorized")
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
		"SELECT 1 WHERE 1 = 0": "answers 0 rows", "SELECT 1 UNION SELECT 2": "answers 2 rows", "SELEC 1": "syntax",
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
	if v, err := ask(root(replica), readLag); err != nil || v != 0 {
		t.Errorf("a replica that has caught up: %v, %v", v, err)
	}
	sqlExec(t, c, "STOP SLAVE")
}

// TestStepsGoOn lowers the share below what goroutines have begun: they go on, since others may wait for their
// locks, and nobody new begins. Only a stop holds them.
func TestStepsGoOn(t *testing.T) {
	p := pacerAt(t, 1)
	all := make([]*pace, 4)
	for i := range all {
		all[i] = p.join()
	}
	allowed := func(share float64, of ...*pace) (n int) {
		p.share.Store(math.Float64bits(share))
		for _, w := range of {
			if w.mayGoOn() {
				n++
			}
		}
		return n
	}
	for _, w := range all[:3] {
		w.want()
	}
	for _, step := range []struct {
		share float64
		of    []*pace
		want  int
	}{{1, all[:3], 3}, {0.25, all[:3], 3}, {0, all[:3], 0}, {0.25, all[:3], 3}} {
		if got := allowed(step.share, step.of...); got != step.want {
			t.Errorf("at %v %d of %d went on, want %d", step.share, got, len(step.of), step.want)
		}
	}
	all[3].want()
	if allowed(0.5, all[3]) != 0 {
		t.Error("a fourth began where two may")
	}
	all[0].end()
	all[1].end()
	if allowed(0.75, all[3]) != 1 {
		t.Error("nobody began where one had ended")
	}
}
