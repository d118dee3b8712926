package server

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/testgrpc"
)

// A pipe is a listener with one connection.
type pipe struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.TCPAddr{} }

// TestGRPCConnections has peers that send nothing, do not respond and ping often: their connections are closed in time. The clock is
// that of synctest.
func TestGRPCConnections(t *testing.T) {
	for _, c := range []struct {
		name    string
		silent  bool          // no handshake
		pings   time.Duration // interval; 0: none
		want    time.Duration // time of the end
		tooMany bool
	}{
		{name: "no handshake", silent: true, want: 10 * time.Second},
		{name: "no response", want: 80 * time.Second},
		{name: "pings", pings: 5*time.Second + 500*time.Millisecond, want: time.Hour},
		{name: "many pings", pings: 4 * time.Second, want: 17 * time.Second, tooMany: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			l := &pipe{accepted: make(chan net.Conn, 1), closed: make(chan struct{})}
			s := grpc.NewServer(GRPCLimits()...)
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			client, server := net.Pipe()
			l.accepted <- server
			framer := http2.NewFramer(client, client)
			stop := make(chan struct{})
			var writing sync.WaitGroup
			writing.Go(func() {
				if c.silent {
					return
				}
				if _, err := io.WriteString(client, http2.ClientPreface); err != nil {
					t.Error(err)
				}
				if err := framer.WriteSettings(); err != nil {
					t.Error(err)
				}
				for i := time.Duration(1); c.pings > 0 && i*c.pings < time.Hour; i++ {
					select {
					case <-time.After(time.Until(start.Add(i * c.pings))):
					case <-stop:
						return
					}
					if framer.WritePing(false, [8]byte{}) != nil {
						return
					}
				}
				if c.pings > 0 {
					_ = client.Close()
				}
			})
			tooMany := false
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					break
				}
				switch f := frame.(type) {
				case *http2.GoAwayFrame:
					tooMany = strings.Contains(string(f.DebugData()), "too_many_pings")
				case *http2.SettingsFrame:
					if v, ok := f.Value(http2.SettingMaxHeaderListSize); ok && v != 64<<10 || !ok && !f.IsAck() {
						t.Errorf("%s: headers of %d bytes", c.name, v)
					}
				}
			}
			took := time.Since(start)
			close(stop)
			if took.Round(10*time.Second) != c.want.Round(10*time.Second) || took > c.want || tooMany != c.tooMany {
				t.Errorf("%s: ended after %v, want %v; too many pings: %t", c.name, took, c.want, tooMany)
			}
			_ = client.Close()
			writing.Wait()
			s.Stop()
			if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				t.Error(err)
			}
		})
	}
}

// TestGRPCMessages sends the largest request, and one that is larger by a byte.
func TestGRPCMessages(t *testing.T) {
	s := grpc.NewServer(GRPCLimits()...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	conn, err := grpc.NewClient(testgrpc.Serve(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	for n, want := range map[int]codes.Code{1 << 20: codes.NotFound, 1<<20 + 1: codes.ResourceExhausted} {
		const header = 4 // of the field
		_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: strings.Repeat("x", n-header)})
		if got := status.Code(err); got != want {
			t.Errorf("a request of %d bytes: %v, want %v", n, err, want)
		}
	}
}
