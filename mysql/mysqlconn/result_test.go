package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// loggedIn is the script of a server that accepts any login.
func loggedIn(s *Conn) {
	say(s, greeting(PluginNative, 0)...)
	hear(s)
	say(s, okPacket...)
}

// command reads a command.
func command(s *Conn) []byte {
	s.Seq = 0
	return hear(s)
}

// TestResultEnds has results that end with an error of the server at each of their packets: a query returns it.
func TestResultEnds(t *testing.T) {
	column := []byte("\x03def") // the rest is not read
	refusal := []byte("\xff\x25\x05#70100Query execution was interrupted")
	packets := [][]byte{{2}, column, column, []byte("\x011\x012"), []byte("\x013\x014")}
	for n := range len(packets) + 1 {
		c, err := scripted(t, Config{User: "u"}, func(s *Conn) {
			loggedIn(s)
			for command(s) != nil {
				for _, p := range packets[:n] {
					say(s, p...)
				}
				say(s, refusal...)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the connection is of use afterwards
			rows := 0
			_, err = c.Query(t.Context(), "SELECT", func(mysqlwire.TextRow) error {
				rows++
				return nil
			})
			var refused *ServerError
			if !errors.As(err, &refused) || refused.Number != 1317 || rows != max(0, n-3) {
				t.Errorf("an error after %d packets: %d rows, %v", n, rows, err)
			}
		}
		_ = c.Close() // the script ends with it
	}
}

// TestEventsEnd has the events of a log that end in each way: the reason is final.
func TestEventsEnd(t *testing.T) {
	refusal := []byte("\xff\xd4\x04#HY000Could not find first log file name")
	for name, last := range map[string][]byte{"the end": {mysqlwire.MarkEOF, 0, 0, 0, 0}, "an error": refusal, "another packet": {7}} {
		c, err := scripted(t, Config{User: "u"}, func(s *Conn) {
			loggedIn(s)
			command(s) // registers
			say(s, okPacket...)
			command(s)
			say(s, append([]byte{mysqlwire.MarkOK}, "event"...)...)
			say(s, last...)
			command(s) // the client closes
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.DumpBinlog(t.Context(), mysqlwire.RegisterReplica{}, mysqlwire.BinlogDump{}.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		if event, err := e.Next(t.Context(), time.Minute); err != nil || !bytes.Equal(event, []byte("event")) {
			t.Errorf("%s: %q, %v", name, event, err)
		}
		for range 2 {
			event, err := e.Next(t.Context(), time.Minute)
			var refused *ServerError
			if event != nil || err == nil || errors.Is(err, io.EOF) != (name == "the end") || errors.As(err, &refused) != (name == "an error") || errors.Is(err, mysqlwire.ErrMalformedPacket) != (name == "another packet") {
				t.Errorf("%s: %q, %v", name, event, err)
			}
		}
		_ = c.Close() // the script ends with it
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if _, err := (&Events{}).read(ctx, time.Minute); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestExecStreamFails has a statement whose parts are too few, too many, or end with an error: it is not executed, and the connection is broken.
func TestExecStreamFails(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		fill func(write func([]byte) error) error
		want error
	}{
		"an error":       {func(func([]byte) error) error { return failed }, failed},
		"an error later": {func(write func([]byte) error) error { return errors.Join(write([]byte("DO")), failed) }, failed},
		"too few":        {func(write func([]byte) error) error { return write([]byte("DO")) }, errStreamSize},
		"too many":       {func(write func([]byte) error) error { return write([]byte("DO 0 + 0")) }, errStreamSize},
		"whole":          {func(write func([]byte) error) error { return write([]byte("DO 0")) }, nil},
	} {
		got := ""
		c, err := scripted(t, Config{User: "u"}, func(s *Conn) {
			loggedIn(s)
			if b := command(s); len(b) > 0 {
				got = string(b[1:])
				say(s, okPacket...)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ExecStream(t.Context(), len("DO 0"), tt.fill); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		_ = c.Close() // the script ends with it
		if tt.want == nil && got != "DO 0" || tt.want != nil && got != "" {
			t.Errorf("%s: the server got %q", name, got)
		}
	}
}
