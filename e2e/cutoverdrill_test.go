//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// A moment of a cutover is identified by the copy's request to the gateway.
type moment string

const (
	holdAsked    moment = "a hold is asked for"
	holdGranted  moment = "the hold is granted"
	switchAsked  moment = "the switch is asked for"
	switchRuns   moment = "the switch is under way"
	switchLost   moment = "the switch is done and its answer lost"
	switchDone   moment = "the switch is done"
	releaseAsked moment = "a release is asked for" // after a refused switch
	goesBack     moment = "changes go back"
)

var moments = []moment{holdAsked, holdGranted, switchAsked, switchRuns, switchLost, switchDone, releaseAsked, goesBack}

// A victim is the process that is killed and restarted.
type victim string

const (
	theCopy    victim = "copy"
	theGateway victim = "gateway"
	theSource  victim = "source"
	theTarget  victim = "target"
)

// A drill is one cutover in which one process is killed at one moment. It is a proxy between the copy and the
// gateway's API.
type drill struct {
	*testing.T
	moment moment
	victim victim
	delay  time.Duration // after the start of a switch

	from, to *testmysql.Server
	gateway  *tare
	again    []string // arguments for restarting the gateway at the same addresses
	copy     atomic.Pointer[child]
	api      *httputil.ReverseProxy
	refused  atomic.Bool // a switch was refused, so that there is a release
	once     sync.Once
	struck   chan struct{} // closed when the victim is killed or frozen
	revived  bool
	journal  *journal
	frozen   *freezer // nil: the victim is killed
	events   string   // the file of the running copy's events
}

// lastEvents returns the last events of the running copy.
func (d *drill) lastEvents() string {
	text, err := os.ReadFile(d.events)
	must(d.T, err)
	return string(text[max(len(text)-4000, 0):])
}

// TestCutoverDrills switches clients from one server to another, and kills the copy, the gateway, the source
// and the target at each moment of the cutover. The copy continues, or, if it was killed, the same command
// resumes it. In every case each acknowledged write is on the clients' final server; after the first write at
// the new server there are none at the old one; clients receive errors only from processes they are connected
// to; and in the end both servers have the same rows.
func TestCutoverDrills(t *testing.T) {
	// It also exists right after a restart.
	account := testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	servers := []*testmysql.Server{testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, testmysql.WithBinlog(), account)}
	rnd := testseed.Rand(t)
	round := 0
	for _, m := range moments {
		for _, v := range []victim{theCopy, theGateway, theSource, theTarget} {
			ok := t.Run(string(m)+"/"+string(v), func(t *testing.T) {
				d := &drill{
					T: t, moment: m, victim: v, delay: time.Duration(rnd.Int64N(int64(4 * time.Millisecond))),
					from: servers[round%2], to: servers[1-round%2], struck: make(chan struct{}),
				}
				d.run()
			})
			if !ok {
				return // a server may be down
			}
			round++
		}
	}
}

const drillTables = "create table drl.acked (id bigint primary key, client int not null, port int not null, body varchar(100) not null);" +
	"create table drl.counter (client int primary key, n int not null)"

func (d *drill) run() {
	for _, s := range []*testmysql.Server{d.from, d.to} {
		must(d.T, s.Exec("drop database if exists drl", "drop database if exists _tare", "create database drl"))
	}
	must(d.T, d.from.Exec(strings.Split(drillTables, ";")...))
	must(d.T, d.from.Exec("insert into drl.counter values (0, 0)"))
	for client := 1; client < drillClients; client++ {
		must(d.T, d.from.Exec(fmt.Sprintf("insert into drl.counter values (%d, 0)", client)))
	}
	accounts := filepath.Join(d.TempDir(), "accounts.yaml")
	must(d.T, os.WriteFile(accounts, []byte(testmysql.AppUser+": "+testmysql.Password+"\n"), 0o600))
	d.again = []string{"--standby", "mysql://" + d.to.Addr, "--standby-accounts", accounts, "--data-dir", d.TempDir(), "--backend-get-public-key"}
	d.gateway = startTare(d.T, d.from.Addr, d.again...)
	at, err := url.Parse(d.gateway.http)
	must(d.T, err)
	d.again = append(d.again, "--listen", d.gateway.addr, "--http", at.Host)
	d.api = httputil.NewSingleHostReverseProxy(at)
	d.api.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // the connection is closed as by the gateway
	front := httptest.NewServer(d)
	defer front.Close()

	j := newJournal(d.T, d.gateway.addr)
	d.journal = j
	from, to, api, hold := d.from.Addr, d.to.Addr, front.URL, "5s"
	if d.frozen != nil {
		from, to, api = d.frozen.start(d.T, from, to, api)
		hold = frozenHold.String()
	}
	socket := filepath.Join(d.TempDir(), "control.sock")
	args := []string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + from, "--to", "mysql://copier:" + testmysql.Password + "@" + to,
		"--tables=drl.acked,drl.counter", "--follow", "--cutover", "--gateway", api, "--cutover-hold", hold, "--json", "--patience", "30s",
		"--control-socket", socket,
	}
	d.events = filepath.Join(d.TempDir(), "events.json")
	d.copyUntilBack(args)
	j.awaitAcked(200) // at the target, while changes flow back
	j.stop()
	c := d.copy.Load()
	testwait.UntilState(d.T, "finish to be taken", func() (string, bool) { // the copy may be reconnecting
		out, err := exec.Command(binary, "copy", "ctl", "finish", "--socket", socket).CombinedOutput()
		return fmt.Sprintf("%v: %s\nthe copy's last events:\n%s\nand messages:\n%s", err, out, d.lastEvents(), c.text()), err == nil
	})
	testwait.Receive(d.T, "the end of the copy", c.exited)
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		d.Errorf("the copy ended with code %d: %s", code, lastLine(c.text()))
	}
	d.check(j)
}

// copyUntilBack runs the copy, and restarts it if it was killed, until the target's changes have arrived at
// the source and the victim is running again.
func (d *drill) copyUntilBack(args []string) {
	limit := time.After(2 * time.Minute)
	for {
		file, err := os.Create(d.events)
		must(d.T, err)
		c, events := startCopyTo(d.T, args, file)
		d.copy.Store(c)
		if d.await(events, limit) {
			return
		}
		<-c.exited
		said := lastLine(c.text())
		if c.cmd.ProcessState.ExitCode() != -1 && !strings.Contains(said, "another tare copy") { // the server has not noticed yet that the previous copy was killed
			d.Fatalf("the copy ended with code %d: %s", c.cmd.ProcessState.ExitCode(), said)
		}
	}
}

// await processes the copy's events. It reports false if the copy has exited.
func (d *drill) await(events <-chan string, limit <-chan time.Time) bool {
	for back := false; !back || !d.revived; {
		struck := d.struck
		if d.revived {
			struck = nil
		}
		select {
		case event, ok := <-events:
			if !ok {
				return false
			}
			if strings.Contains(event, `"cutover"`) || strings.Contains(event, `"retry"`) {
				d.Log(event)
			}
			if strings.Contains(event, "back to the source: the target has caught up") {
				back = true
				d.strike(goesBack)
			}
		case <-struck:
			d.revive()
			back = back && d.victim != theCopy
		case <-limit:
			d.Fatalf("the copy does not come to an end:\n%s\ngateway:\n%s", d.copy.Load().text(), d.gateway.text())
		}
	}
	return true
}

// revive restarts the victim.
func (d *drill) revive() {
	d.revived = true
	if d.frozen != nil {
		d.journal.awaitAcked(20)
		d.frozen.thaw(d)
		return
	}
	switch d.victim {
	case theGateway:
		d.gateway = startTare(d.T, d.from.Addr, d.again...)
	case theSource:
		must(d.T, d.from.Restart())
	case theTarget:
		must(d.T, d.to.Restart())
	}
}

// strike kills the victim at the right moment. Several goroutines call it.
func (d *drill) strike(m moment) {
	if m != d.moment {
		return
	}
	d.once.Do(func() {
		defer close(d.struck)
		if d.frozen != nil {
			d.frozen.freeze(d)
			return
		}
		var err error
		switch d.victim {
		case theCopy:
			d.copy.Load().end(syscall.SIGKILL)
		case theGateway:
			d.gateway.kill()
		case theSource:
			err = d.from.Kill()
		case theTarget:
			err = d.to.Kill()
		}
		if err != nil {
			d.Errorf("kill the %s: %v", d.victim, err)
		}
	})
}

// ServeHTTP forwards requests to the gateway, and calls strike before and after some.
func (d *drill) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := path.Base(r.URL.Path)
	switch what {
	case "hold":
		d.strike(holdAsked)
	case "switch":
		if d.moment == releaseAsked && d.refused.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error": "refused once"}`)) // the client may have disconnected
			return
		}
		d.strike(switchAsked)
		if d.moment == switchRuns {
			time.AfterFunc(d.delay, func() { d.strike(switchRuns) })
		}
	case "release":
		if d.refused.Load() { // the first release checks the account
			d.strike(releaseAsked)
		}
	}
	respond := httptest.NewRecorder()
	d.api.ServeHTTP(respond, r)
	if respond.Code == http.StatusOK {
		switch {
		case what == "hold":
			d.strike(holdGranted)
		case what == "switch" && d.moment == switchLost:
			d.strike(switchLost)
			panic(http.ErrAbortHandler)
		case what == "switch":
			d.strike(switchDone)
		}
	}
	w.Header().Set("Content-Type", respond.Header().Get("Content-Type"))
	w.WriteHeader(respond.Code)
	_, _ = w.Write(respond.Body.Bytes())
}

// feel reports whether clients may be connected to the victim.
func (d *drill) feel() bool {
	switch d.victim {
	case theGateway:
		return true
	case theSource:
		return d.moment != goesBack && d.moment != switchDone && d.moment != switchLost
	case theTarget:
		return d.moment == goesBack || d.moment == switchDone || d.moment == switchLost || d.moment == switchRuns
	}
	return false
}

// check compares the clients' records with the servers.
func (d *drill) check(j *journal) {
	if n := len(j.errors); n > 0 && !d.feel() {
		d.Errorf("clients saw %d errors, and were not connected to what was killed: %v", n, j.errors)
	}
	d.Logf("%d writes, %d errors of clients, the longest took %v", j.next.Load(), len(j.errors), j.longest)
	if _, route := get(d.T, d.gateway.http+"/api/v1/route"); !strings.Contains(route, `"address":"`+d.to.Addr+`"`) {
		d.Errorf("clients are not at the target: %s", route)
	}
	there := open(d.T, d.to.Addr, "")
	for _, what := range []string{"id, client, port, body) from drl.acked", "client, n) from drl.counter"} {
		var old, new string
		scan(d.T, open(d.T, d.from.Addr, ""), sumOf(what), &old)
		scan(d.T, there, sumOf(what), &new)
		if old != new {
			d.Errorf("%s: the source has %s, the target has %s", what, old, new)
		}
	}
	rows, err := there.QueryContext(d.Context(), "select id, port from drl.acked")
	must(d.T, err)
	defer rows.Close()
	port := make(map[int64]int)
	for rows.Next() {
		var id int64
		var p int
		must(d.T, rows.Scan(&id, &p))
		port[id] = p
	}
	must(d.T, rows.Err())
	must(d.T, j.verify(port, d.from.Port(), d.to.Port()))
	for client := range drillClients {
		var n int
		scan(d.T, there, fmt.Sprint("select n from drl.counter where client = ", client), &n)
		if sure, perhaps := j.counted(client); n < sure || n > sure+perhaps {
			d.Errorf("client %d has counted to %d: %d were acknowledged, of %d more it knows nothing", client, n, sure, perhaps)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// verify checks the rows of the final server, by the port of the server that each was written at.
func (j *journal) verify(port map[int64]int, from, to int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	first := int64(-1) // when the first write at the target was acknowledged
	sides := make(map[int]int)
	for id, w := range j.writes {
		at, ok := port[id]
		if w.acked > 0 && !ok {
			errs = append(errs, fmt.Errorf("write %d of client %d was acknowledged and is not there", id, w.client))
		}
		if ok {
			sides[at]++
		}
		if ok && at == to && w.acked > 0 && (first < 0 || w.acked < first) {
			first = w.acked
		}
	}
	for id, at := range port {
		w, ok := j.writes[id]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("nobody has written %d", id))
		case at != from && at != to:
			errs = append(errs, fmt.Errorf("write %d was done at port %d", id, at))
		case at == from && w.begun > first:
			errs = append(errs, fmt.Errorf("write %d of client %d began when clients were at the target, and went to the source", id, w.client))
		}
	}
	if sides[from] == 0 || sides[to] == 0 {
		errs = append(errs, fmt.Errorf("%d writes at the source and %d at the target: nothing is shown", sides[from], sides[to]))
	}
	return errors.Join(errs...)
}
