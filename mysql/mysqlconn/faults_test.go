package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A player is a connection whose server has sent everything beforehand. It returns few bytes per read, and fails at one write.
type player struct {
	replay
	failAt int // the write that fails, from 1; -1: none
	writes int
}

var errLost = errors.New("connection lost")

func playing(said []byte, failAt int) *player {
	p := &player{failAt: failAt}
	p.said.Reset(said)
	return p
}

func (p *player) Read(b []byte) (int, error) { return p.said.Read(b[:min(len(b), 7)]) }

func (p *player) Write(b []byte) (int, error) {
	p.writes++
	if p.writes == p.failAt {
		return 0, errLost
	}
	return p.heard.Write(b)
}

// A reply is packets of a server, from a sequence number on.
type reply struct {
	seq     uint8
	packets [][]byte
}

// resultSet returns the packets of a result with two columns.
func resultSet(caps mysqlwire.Capability, status mysqlwire.Status, rows ...string) (all [][]byte) {
	eof := func(status mysqlwire.Status) []byte {
		return []byte{mysqlwire.MarkEOF, 1, 0, byte(status), byte(status >> 8)}
	}
	all = append(all, mysqlwire.ResultHeader{Columns: 2}.AppendTo(nil, caps), []byte("\x03def"), []byte("\x03def"))
	if !caps.Has(mysqlwire.CapDeprecateEOF) {
		all = append(all, eof(status))
	}
	for _, r := range rows {
		all = append(all, []byte(r))
	}
	if !caps.Has(mysqlwire.CapDeprecateEOF) {
		return append(all, eof(status))
	}
	end := (&mysqlwire.OK{Status: status, Warnings: 1}).AppendTo(nil, caps)
	end[0] = mysqlwire.MarkEOF
	return append(all, end)
}

// An operation is a use of a connection, with all that its server sends.
type operation struct {
	name    string
	replies func(caps mysqlwire.Capability) []reply
	run     func(ctx context.Context, p *player, caps mysqlwire.Capability) (string, *Client, error)
	want    string
	mute    bool // the server sends nothing
	login   bool // a refusal leaves no connection
	several bool // commands follow after a refusal
}

// on runs a function on a client that is logged in.
func on(f func(ctx context.Context, c *Client) (string, error)) func(context.Context, *player, mysqlwire.Capability) (string, *Client, error) {
	return func(ctx context.Context, p *player, caps mysqlwire.Capability) (string, *Client, error) {
		c := &Client{Conn: New(p), Capabilities: caps, maxPacket: defaultMaxPacket}
		got, err := f(ctx, c)
		return got, c, err
	}
}

func ofCaps(packets ...[]byte) func(mysqlwire.Capability) []reply {
	return func(mysqlwire.Capability) []reply { return []reply{{1, packets}} }
}

func affected(caps mysqlwire.Capability, n uint64, status mysqlwire.Status, info string) []byte {
	return (&mysqlwire.OK{AffectedRows: n, LastInsertID: n + 1, Status: status, Warnings: 2, Info: []byte(info)}).AppendTo(nil, caps)
}

// twoResults is the reply to a statement: a result with two rows, a progress report between them, and the OK of another statement.
func twoResults(caps mysqlwire.Capability) []reply {
	more := resultSet(caps, mysqlwire.StatusMoreResults, "\x011\x012", "\xff\xff\xff\x01\x02", "\x013\xfb")
	return []reply{{1, append(more, affected(caps, 3, 0, ""))}}
}

func operations() []operation {
	long := bytes.Repeat([]byte("x"), statementKeep+1)
	var rows []string
	text := func(r mysqlwire.TextRow) error {
		rows = append(rows, fmt.Sprintf("%s-%s", r[0], r[1]))
		return nil
	}
	shown := func(r Result, err error) (string, error) {
		got := fmt.Sprintf("%v %d affected, ID %d, %d rows, %d warnings", rows, r.AffectedRows, r.LastInsertID, r.Rows, r.Warnings)
		rows = nil
		return got, err
	}
	ok := (&mysqlwire.OK{Status: mysqlwire.StatusAutocommit}).AppendTo(nil, capsBase)
	login := func(caps mysqlwire.Capability) []reply {
		h := mysqlwire.Handshake{
			ProtocolVersion: 10, ServerVersion: []byte("8.0.36"), ConnectionID: 7, AuthData: challenge20[:20],
			Capabilities: caps | mysqlwire.CapConnectWithDB | mysqlwire.CapPluginAuth | mysqlwire.CapPluginAuthLenenc, AuthPlugin: []byte(PluginNative),
		}
		return []reply{{0, [][]byte{h.AppendTo(nil)}}, {2, [][]byte{authSwitch(PluginSHA2, challenge20)}}, {4, [][]byte{{1, mysqlwire.SHA2FastOK}, ok}}}
	}
	loaded := func(c *Client, err error) (string, *Client, error) {
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprint(c.ServerVersion, " ", c.ConnectionID, " ", uint16(c.Status)), c, nil
	}
	return []operation{
		{name: "Dial", login: true, want: "8.0.36 7 2", replies: login, run: func(ctx context.Context, p *player, _ mysqlwire.Capability) (string, *Client, error) {
			return loaded(Dial(ctx, Config{Addr: "x:1", User: "u", Password: "secret", Database: "d", DialFunc: func(context.Context, string, string) (net.Conn, error) { return p, nil }}))
		}},
		{name: "LogIn", login: true, want: "8.0.36 7 2", replies: login, run: func(ctx context.Context, p *player, caps mysqlwire.Capability) (string, *Client, error) {
			return loaded(LogIn(ctx, New(p), Login{User: "u", Password: "secret", Capabilities: caps | mysqlwire.CapPluginAuth | mysqlwire.CapConnectWithDB, MaxPacket: 1 << 24}))
		}},
		{name: "Ping", replies: ofCaps(ok), run: on(func(ctx context.Context, c *Client) (string, error) { return "", c.Ping(ctx) })},
		{name: "Query", want: "[1-2 3-] 3 affected, ID 4, 2 rows, 3 warnings", replies: twoResults, run: on(func(ctx context.Context, c *Client) (string, error) {
			rows = nil
			return shown(c.Query(ctx, "SELECT", text))
		})},
		{name: "ExecBytes", want: "[] 3 affected, ID 4, 2 rows, 3 warnings", replies: twoResults, run: on(func(ctx context.Context, c *Client) (string, error) {
			return shown(c.ExecBytes(ctx, []byte("SELECT")))
		})},
		{name: "ExecBytes of a long statement", want: "[] 3 affected, ID 4, 0 rows, 2 warnings", replies: func(caps mysqlwire.Capability) []reply {
			return []reply{{1, [][]byte{affected(caps, 3, 0, "")}}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) { return shown(c.ExecBytes(ctx, long)) })},
		{name: "ExecStream", want: "[] 3 affected, ID 4, 0 rows, 2 warnings", replies: func(caps mysqlwire.Capability) []reply {
			return []reply{{1, [][]byte{affected(caps, 3, 0, "")}}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			return shown(c.ExecStream(ctx, 6, func(write func([]byte) error) error {
				return errors.Join(write([]byte("SEL")), write([]byte("ECT"))) //nolint:misspell // a part of SELECT
			}))
		})},
		{name: "Pipeline", several: true, want: "[0:1-2 0:3- 1:5-6]", replies: func(caps mysqlwire.Capability) []reply {
			return append(twoResults(caps), reply{1, resultSet(caps, 0, "\x015\x016")})
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			var got []string
			err := c.Pipeline(ctx, []string{"SELECT 1", "SELECT 2"}, func(i int, r mysqlwire.TextRow) error {
				got = append(got, fmt.Sprintf("%d:%s-%s", i, r[0], r[1]))
				return nil
			})
			return fmt.Sprint(got), err
		})},
		{name: "Prepare", want: "statement 9 of 1 parameters, 2 columns", replies: func(caps mysqlwire.Capability) []reply {
			all := [][]byte{mysqlwire.PrepareOK{StatementID: 9, Params: 1, Columns: 2}.AppendTo(nil, caps)}
			for _, n := range []int{1, 2} {
				for range n {
					all = append(all, []byte("\x03def"))
				}
				if !caps.Has(mysqlwire.CapDeprecateEOF) {
					all = append(all, []byte{mysqlwire.MarkEOF, 0, 0, 0, 0})
				}
			}
			return []reply{{1, all}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			p, err := c.Prepare(ctx, []byte("SELECT ?, 1"))
			return fmt.Sprintf("statement %d of %d parameters, %d columns", p.StatementID, p.Params, p.Columns), err
		})},
		{name: "Prepare without parameters and columns", want: "0 0", replies: func(caps mysqlwire.Capability) []reply {
			return []reply{{1, [][]byte{mysqlwire.PrepareOK{StatementID: 9}.AppendTo(nil, caps)}}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			p, err := c.Prepare(ctx, []byte("DO 1"))
			return fmt.Sprint(p.Params, p.Columns), err
		})},
		{name: "Execute", want: "[\x00\x00a \x00\x00b]", replies: func(caps mysqlwire.Capability) []reply {
			return []reply{{1, resultSet(caps, 0, "\x00\x00a", "\x00\x00b")}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			var got []string
			_, err := c.Execute(ctx, 9, []mysqlwire.BinaryValue{{}}, func(row []byte) error {
				got = append(got, string(row))
				return nil
			})
			return fmt.Sprint(got), err
		})},
		{name: "CloseStatement", mute: true, run: on(func(_ context.Context, c *Client) (string, error) { return "", c.CloseStatement(9) })},
		{name: "Send", want: "2", replies: ofCaps(ok), run: on(func(ctx context.Context, c *Client) (string, error) {
			err := c.Send(ctx, []byte{byte(mysqlwire.ComResetConnection)})
			return fmt.Sprint(uint16(c.Status)), err
		})},
		{name: "Stream", want: "2 columns: \x011\x012, \x013\xfb", replies: twoResults, run: on(func(ctx context.Context, c *Client) (string, error) {
			r, err := c.Stream(ctx, "SELECT")
			if err != nil {
				return "", err
			}
			var got []string
			for {
				row, err := r.Next()
				if err != nil {
					if _, again := r.Next(); again != err { //nolint:errorlint // not wrapped
						return "", fmt.Errorf("after %w: %w", err, again)
					}
					break
				}
				got = append(got, string(row))
			}
			return fmt.Sprintf("%d columns: %s", r.Columns, strings.Join(got, ", ")), r.Close()
		})},
		{name: "Stream without rows", want: "0 EOF", replies: ofCaps(ok), run: on(func(ctx context.Context, c *Client) (string, error) {
			r, err := c.Stream(ctx, "DO 1")
			if err != nil {
				return "", err
			}
			_, err = r.Next()
			return fmt.Sprint(r.Columns, err), r.Close()
		})},
		{name: "Load", want: "3 records, 1 deleted, 2 skipped, 3 affected", replies: func(caps mysqlwire.Capability) []reply {
			return []reply{{1, [][]byte{[]byte("\xfbname")}}, {4, [][]byte{affected(caps, 3, 0, "Records: 3  Deleted: 1  Skipped: 2  Warnings: 0")}}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			r, err := c.Load(ctx, "LOAD", func(write func([]byte) error) error { return write([]byte("1\n2\n")) })
			return fmt.Sprintf("%d records, %d deleted, %d skipped, %d affected", r.Records, r.Deleted, r.Skipped, r.AffectedRows), err
		})},
		{name: "DumpBinlog", login: true, want: "[first second]", replies: func(mysqlwire.Capability) []reply {
			return []reply{{1, [][]byte{ok}}, {1, [][]byte{[]byte("\x00first"), []byte("\x00second")}}}
		}, run: on(func(ctx context.Context, c *Client) (string, error) {
			e, err := c.DumpBinlog(ctx, mysqlwire.RegisterReplica{}, mysqlwire.BinlogDump{}.AppendTo(nil))
			var got []string
			for range 2 {
				if err != nil {
					return "", err
				}
				var event []byte
				if event, err = e.Next(ctx, time.Minute); err == nil {
					got = append(got, string(event))
				}
			}
			return fmt.Sprint(got), err
		})},
	}
}

// sent returns the bytes of replies, and the offsets of their packets.
func sent(replies []reply) (b []byte, at []int) {
	for _, r := range replies {
		seq := r.seq
		for _, p := range r.packets {
			at = append(at, len(b))
			b, seq = mysqlwire.AppendPacket(b, p, seq)
		}
	}
	return b, at
}

// TestOperationFaults runs each operation with responses that end at each byte, writes that fail, and packets of each response that are
// out of order, empty or refusals: the operation fails, and the connection is broken unless the server refused.
func TestOperationFaults(t *testing.T) {
	refusal := []byte("\xff\x25\x05#70100Query execution was interrupted")
	for _, caps := range []mysqlwire.Capability{
		capsBase | mysqlwire.CapDeprecateEOF | mysqlwire.CapLocalFiles | mysqlwire.CapMultiResults, capsBase | mysqlwire.CapLocalFiles | mysqlwire.CapMultiResults,
	} {
		for _, op := range operations() {
			var replies []reply
			if !op.mute {
				replies = op.replies(caps)
			}
			all, at := sent(replies)
			play := func(said []byte, failAt int) (string, *Client, *player, error) {
				p := playing(said, failAt)
				got, c, err := op.run(t.Context(), p, caps)
				return got, c, p, err
			}
			// fails checks a fault after which the connection is broken.
			fails := func(what string, said []byte, failAt int, cause error) {
				t.Helper()
				_, c, _, err := play(said, failAt)
				if err == nil || cause != nil && !errors.Is(err, cause) {
					t.Errorf("%s, %s: got %v, want %v", op.name, what, err, cause)
				}
				if c != nil && !c.Broken() {
					t.Errorf("%s, %s: the connection is not broken", op.name, what)
				}
			}
			got, c, p, err := play(all, -1)
			if err != nil || got != op.want {
				t.Errorf("%s: got %q, %v; want %q", op.name, got, err, op.want)
				continue
			}
			if c.Broken() != (op.name == "DumpBinlog") || p.said.Len() > 0 {
				t.Errorf("%s: broken: %t; %d bytes were not read", op.name, c.Broken(), p.said.Len())
			}
			for n := range all {
				cause := io.ErrUnexpectedEOF
				switch streams := op.name == "Stream" || op.name == "DumpBinlog"; {
				case slices.Contains(at, n) && streams:
					cause = nil // io.EOF of a command, io.ErrUnexpectedEOF of a row or an event
				case slices.Contains(at, n):
					cause = io.EOF
				}
				fails(fmt.Sprintf("cut after %d bytes", n), all[:n], -1, cause)
			}
			for n := range p.writes {
				fails(fmt.Sprintf("write %d fails", n+1), all, n+1, errLost)
			}
			dead, cancel := context.WithCancelCause(t.Context())
			cancel(errLost)
			if _, _, err := op.run(dead, playing(all, -1), caps); !op.mute && !errors.Is(err, errLost) {
				t.Errorf("%s: got %v of a context that is done", op.name, err)
			}
			for i, a := range at {
				wrong := slices.Clone(all)
				wrong[a+3] += 2
				fails(fmt.Sprintf("packet %d out of order", i), wrong, -1, ErrSequence)
			}
			eachPacket(replies, nil, func(i int, said []byte) { fails(fmt.Sprintf("packet %d empty", i), said, -1, mysqlwire.ErrShortPacket) })
			eachPacket(replies, refusal, func(i int, said []byte) {
				_, c, _, err := play(said, -1)
				var refused *ServerError
				if op.several && i < len(replies[0].packets) {
					return // what follows is of the next statement
				}
				if !errors.As(err, &refused) && !(op.login && err != nil) {
					t.Errorf("%s, packet %d refuses: %v", op.name, i, err)
				}
				if c != nil && c.Broken() && !op.login {
					t.Errorf("%s, packet %d refuses: the connection is broken", op.name, i)
				}
			})
		}
	}
}

// eachPacket calls f with the bytes of replies that end with another packet in place of the i-th.
func eachPacket(replies []reply, with []byte, f func(i int, said []byte)) {
	n := 0
	for i, r := range replies {
		for j := range r.packets {
			cut := append(slices.Clone(replies[:i]), reply{r.seq, append(slices.Clone(r.packets[:j]), with)})
			said, _ := sent(cut)
			f(n, said)
			n++
		}
	}
}

// TestMalformedEnds cuts the packet that ends each operation: it fails, and the connection is broken.
func TestMalformedEnds(t *testing.T) {
	caps := capsBase | mysqlwire.CapLocalFiles | mysqlwire.CapMultiResults
	for _, caps := range []mysqlwire.Capability{caps, caps | mysqlwire.CapDeprecateEOF} {
		for _, op := range operations() {
			if op.mute || op.name == "DumpBinlog" || op.name == "Prepare" {
				continue // the last packet has nothing that the client reads
			}
			replies := op.replies(caps)
			last := replies[len(replies)-1].packets
			last[len(last)-1] = last[len(last)-1][:2]
			said, _ := sent(replies)
			_, c, err := op.run(t.Context(), playing(said, -1), caps)
			if err == nil || c != nil && !c.Broken() {
				t.Errorf("%s: got %v", op.name, err)
			}
		}
	}
}

// TestBrokenClient has each operation on a connection that is broken: it fails before anything is sent.
func TestBrokenClient(t *testing.T) {
	p := &player{failAt: -1}
	c := &Client{Conn: New(p), Capabilities: capsBase | mysqlwire.CapLocalFiles, broken: true}
	ctx := t.Context()
	none := func(func([]byte) error) error { return nil }
	for name, op := range map[string]func() error{
		"Ping":           func() error { return c.Ping(ctx) },
		"Exec":           func() error { _, err := c.Exec(ctx, "DO 1"); return err },
		"ExecStream":     func() error { _, err := c.ExecStream(ctx, 0, none); return err },
		"Pipeline":       func() error { return c.Pipeline(ctx, nil, nil) },
		"Stream":         func() error { _, err := c.Stream(ctx, "DO 1"); return err },
		"Prepare":        func() error { _, err := c.Prepare(ctx, nil); return err },
		"Execute":        func() error { _, err := c.Execute(ctx, 1, nil, nil); return err },
		"CloseStatement": func() error { return c.CloseStatement(1) },
		"Send":           func() error { return c.Send(ctx, []byte{1}) },
		"Load":           func() error { _, err := c.Load(ctx, "LOAD", none); return err },
		"WriteLoad":      func() error { return c.WriteLoad(ctx, nil) },
		"EndLoad":        func() error { _, err := c.EndLoad(ctx); return err },
		"DumpBinlog":     func() error { _, err := c.DumpBinlog(ctx, mysqlwire.RegisterReplica{}, nil); return err },
	} {
		if err := op(); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: got %v, want ErrBroken", name, err)
		}
	}
	if p.writes > 0 {
		t.Errorf("%d writes", p.writes)
	}
}
