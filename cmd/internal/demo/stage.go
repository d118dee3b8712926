package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taredb/tare/cmd/internal/demo/workload"
	"github.com/taredb/tare/internal/child"
)

const (
	// startTimeout is the time limit for a child to become ready.
	startTimeout = 30 * time.Second

	// stopGrace is the time limit for a child to exit after SIGTERM. Statements of the workload take up to a
	// second on a busy machine, and the gateway waits for them.
	stopGrace = 10 * time.Second

	// blameTimeout is the time after an error within which a process may turn out to have exited.
	blameTimeout = 500 * time.Millisecond

	// historyInterval is short, so that the pages have something to draw in the first minute.
	historyInterval = "2s"

	// The gateway's default addresses, used if they are free.
	defaultMySQL = "127.0.0.1:3316"
	defaultHTTP  = "127.0.0.1:8316"

	anyAddress = "127.0.0.1:0"
)

// A stage is the three processes, their outputs and addresses.
type stage struct {
	engine, gateway, work *child.Child // nil until started
	places                places
	dir                   string    // of the gateway's history; "" until created
	began                 time.Time // when the clients started
	deployed              time.Time // when the release was deployed; zero: not yet

	client     *http.Client
	stream     io.ReadCloser
	stopStream context.CancelFunc
	streamed   chan error // receives the error that ended the stream; closed afterwards
	table      *digestTable
	scale      *scale
	shown      time.Time // when the table was last read

	mu     sync.Mutex
	report workload.Report // the latest one, under mu
}

// startStage starts everything in order. The returned stage must be stopped even after an error.
func startStage(ctx context.Context, o *Options) (*stage, error) {
	s := &stage{client: newHTTPClient(), table: newDigestTable(), streamed: make(chan error, 1)}
	program, err := locateEngine(o.Tare)
	if err != nil {
		return s, err
	}
	engine, err := s.startEngine(ctx, program)
	if err != nil {
		return s, err
	}
	if err := s.startGateway(ctx, o, engine); err != nil {
		return s, err
	}
	if err := s.listen(ctx); err != nil {
		return s, err
	}
	scrapeCtx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	if s.scale, err = newScale(scrapeCtx, s.client, s.places.web, s.gateway.PID()); err != nil {
		return s, s.blame(err)
	}
	return s, s.startWork(ctx, program, o.For)
}

// command returns a command without Tare's settings in the environment, which are meant for the user's
// gateway.
func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TARE_") })
	return cmd
}

// startEngine starts the engine and waits for its ready line.
func (s *stage) startEngine(ctx context.Context, program string) (EngineReady, error) {
	said := make(chan []byte, 1)
	var err error
	s.engine, err = child.Start("the embedded engine", command(program, "engine"), func(line []byte) {
		select {
		case said <- slices.Clone(line):
		default: // it prints one line only
		}
	})
	if err != nil {
		return EngineReady{}, err
	}
	var ready EngineReady
	err = s.engine.Await(ctx, startTimeout, func() (bool, error) {
		select {
		case line := <-said:
			if err := json.Unmarshal(line, &ready); err != nil {
				return false, fmt.Errorf("the embedded engine said %q: %w", line, err)
			}
			return true, nil
		default:
			return false, nil
		}
	})
	return ready, err
}

// startGateway starts `tare serve` on free addresses and waits until it is ready. Another process, such as a second demo, may
// take an address before it listens: it is restarted then, on others.
func (s *stage) startGateway(ctx context.Context, o *Options, engine EngineReady) error {
	if err := s.makeDirs(); err != nil {
		return err
	}
	listens, err := newNotice(filepath.Join(s.dir, "notify"))
	if err != nil {
		return err
	}
	defer listens.close()
	err = s.tryGateway(ctx, o, engine, listens, true)
	for tries := 0; tries < addressTries && s.addressTaken(err); tries++ {
		err = s.tryGateway(ctx, o, engine, listens, false)
	}
	if err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// addressTries is how often the gateway is started again because another process was faster.
const addressTries = 10

// addressTaken reports whether the gateway has ended because another process listens at one of its addresses.
func (s *stage) addressTaken(err error) bool {
	return err != nil && s.gateway != nil && s.gateway.Exited() && strings.Contains(err.Error(), syscall.EADDRINUSE.Error())
}

// tryGateway starts the gateway on the usual addresses, if they are free, or on others, and waits until it listens.
func (s *stage) tryGateway(ctx context.Context, o *Options, engine EngineReady, listens *notice, usual bool) error {
	mysql, web, err := addresses(ctx, o.HTTP, usual)
	if err != nil {
		return err
	}
	s.places = places{mysql: mysql, web: "http://" + web, database: engine.Database}
	cmd := command(o.Tare,
		"serve", "--listen", mysql, "--http", web, "--backend", "mysql://"+engine.Address,
		"--bucket", "file://"+s.bucket(), "--data-dir", s.data(), "--history-interval", historyInterval,
	)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+listens.path)
	if s.gateway, err = child.Start("the gateway (tare serve)", cmd, nil); err != nil {
		return err
	}
	return s.gateway.Await(ctx, startTimeout, listens.arrived)
}

// addresses returns free addresses for the gateway: the usual ones if they are free, or others. web is the user's choice, or "".
func addresses(ctx context.Context, web string, usual bool) (_, _ string, err error) {
	preferred := places{mysql: defaultMySQL, web: defaultHTTP}
	if !usual {
		preferred = places{mysql: anyAddress, web: anyAddress}
	}
	mysql, err := freeAddress(ctx, preferred.mysql)
	if err == nil && web == "" {
		web, err = freeAddress(ctx, preferred.web)
	}
	return mysql, web, err
}

// awaitReady waits until the gateway, which listens, is ready.
func (s *stage) awaitReady(ctx context.Context) error {
	return s.gateway.Await(ctx, startTimeout, func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.places.web+"/-/ready", nil)
		if err != nil {
			return false, fmt.Errorf("ask whether the gateway is ready: %w", err)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return false, nil //nolint:nilerr // it may be busy
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
}

// makeDirs creates the directories of the history, which stop removes.
func (s *stage) makeDirs() (err error) {
	if s.dir, err = os.MkdirTemp("", "tare-demo-"); err != nil {
		return fmt.Errorf("make a directory for the history: %w", err)
	}
	for _, dir := range []string{s.bucket(), s.data()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make a directory for the history: %w", err)
		}
	}
	return nil
}

func (s *stage) bucket() string { return filepath.Join(s.dir, "bucket") }

func (s *stage) data() string { return filepath.Join(s.dir, "data") }

// listen starts reading the query log.
func (s *stage) listen(ctx context.Context) error {
	// The stream outlives ctx: the last records arrive later.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := openStream(streamCtx, s.client, s.places.web)
	if err != nil {
		cancel()
		return err
	}
	s.stream, s.stopStream = stream, cancel
	go func() {
		defer close(s.streamed)
		s.streamed <- readStream(streamCtx, stream, s.table.add)
	}()
	return nil
}

// startWork starts the clients and waits until they run.
func (s *stage) startWork(ctx context.Context, program string, length time.Duration) error {
	began := make(chan struct{})
	once := sync.OnceFunc(func() { close(began) })
	var err error
	s.work, err = child.Start("the workload", command(program, "workload", "--address", s.places.mysql,
		"--deploy-after", scaled(deployAfter, length).String(), "--heal-after", scaled(healAfter, length).String()), func(line []byte) {
		var r workload.Report
		if err := json.Unmarshal(line, &r); err != nil {
			return // only its reports are on its stdout; a truncated one is not the last
		}
		s.mu.Lock()
		s.report = r
		s.mu.Unlock()
		once()
	})
	if err != nil {
		return err
	}
	err = s.work.Await(ctx, startTimeout, func() (bool, error) {
		select {
		case <-began:
			return true, nil
		default:
			return false, nil
		}
	})
	s.began = time.Now()
	s.shown = s.began
	return err
}

// view reads the current state.
func (s *stage) view(ctx context.Context) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	if err := s.scale.weigh(ctx); err != nil {
		return nil, err
	}
	now := time.Now()
	v := s.viewAt(now.Sub(s.shown), now.Sub(s.began))
	s.shown = now
	return v, nil
}

func (s *stage) viewAt(since, elapsed time.Duration) *view {
	s.mu.Lock()
	report := s.report
	s.mu.Unlock()
	return &view{
		elapsed: elapsed, table: s.table.snapshot(since, elapsed), work: report,
		queries: s.scale.statements(), weight: s.scale.result(),
	}
}

// settle measures a last time and waits until the log stream has every statement that the gateway counted, or
// until a time limit.
func (s *stage) settle(ctx context.Context, elapsed time.Duration) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	if err := s.scale.weigh(ctx); err != nil {
		return nil, err
	}
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for deadline := time.Now().Add(settleTimeout); s.table.count() < s.scale.statements() && time.Now().Before(deadline); {
		<-ticker.C
	}
	return s.viewAt(elapsed, elapsed), nil
}

// blame finds the cause of an error: an exit of the gateway shows on its connections before its process is
// seen to have exited.
func (s *stage) blame(err error) error {
	timer := time.NewTimer(blameTimeout)
	defer timer.Stop()
	select {
	case <-s.gateway.Done:
		return s.gateway.Ended()
	case <-timer.C:
		return err
	}
}

// stop stops the processes in reverse order.
func (s *stage) stop() error {
	var errs []error
	end := func(c *child.Child) {
		if c != nil {
			errs = append(errs, c.Stop(stopGrace))
		}
	}
	end(s.work)
	if s.stream != nil {
		s.stopStream()
		for range s.streamed {
			// Children that exited unexpectedly were reported already.
		}
		errs = append(errs, s.stream.Close())
	}
	end(s.gateway)
	end(s.engine)
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	s.client.CloseIdleConnections()
	return errors.Join(errs...)
}

// freeAddress returns the preferred address if it is free, otherwise one on a free port of the same host.
func freeAddress(ctx context.Context, preferred string) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", preferred)
	if err != nil {
		if l, err = lc.Listen(ctx, "tcp", anyAddress); err != nil {
			return "", fmt.Errorf("look for a free port: %w", err)
		}
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("look for a free port: %w", err)
	}
	return addr, nil
}
