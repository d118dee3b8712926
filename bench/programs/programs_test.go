package programs

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// serveEnv turns the test binary into a server on the address that it holds.
const serveEnv = "PROGRAMS_TEST_SERVE"

func TestMain(m *testing.M) {
	if addr := os.Getenv(serveEnv); addr != "" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				os.Exit(1)
			}
			c.Close()
		}
	}
	os.Exit(m.Run())
}

func TestServe(t *testing.T) {
	addr, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(serveEnv, addr)
	p, err := Serve(t.Context(), "server", addr, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second stop is not an error
		if err := p.Stop(StopGrace); err != nil {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the server outlived Stop")
	}
	if _, err := Serve(t.Context(), "server", addr, "sh", "-c", "echo no such option; exit 1"); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got error %v, want the output of the process", err)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}
