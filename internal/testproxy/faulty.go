package testproxy

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Fault happens to a packet that a client sends to a MySQL server and that has a response.
type Fault string

// The faults.
const (
	LostBefore Fault = "lost before it ran"       // the connection is closed
	LostAfter  Fault = "lost after it ran"        // likewise, once the server has responded
	LostWithin Fault = "lost within the response" // likewise, once the client has all of the response's first read but a byte
	Refused    Fault = "refused"                  // the response is an error that is permanent, with RefusedText; the server does not get it
	Failed     Fault = "failed"                   // likewise, with an error that no statement of the product expects
	Deadlock   Fault = "a deadlock"               // the server gets a ROLLBACK instead, and the response is the error of a deadlock
	Delayed    Fault = "delayed"                  // by 50 ms
)

var faults = []Fault{LostBefore, LostAfter, LostWithin, Refused, Deadlock, Delayed}

// RefusedText is a part of the error of a refused packet.
const RefusedText = "the proxy refuses it"

// A Faulty is a proxy of a MySQL server, for connections without TLS, that has a fault at one packet of all clients. Counted are logins,
// commands and the parts of files that a LOAD DATA reads, from 1. It is safe for concurrent use.
type Faulty struct {
	Addr string // its listener's address

	backend string
	l       net.Listener
	all     sync.WaitGroup

	mu      sync.Mutex
	packets []string
	at      int
	match   func(packet string) bool // in place of at
	kind    Fault
	sent    string // the packet with the fault; empty: none had it
}

// StartFaulty starts a proxy to a server, which ends with the test and when its clients have closed their connections.
func StartFaulty(tb testing.TB, backend string) *Faulty {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Faulty{Addr: l.Addr().String(), backend: backend, l: l}
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(c) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		testwait.Group(tb, "the proxy's connections", &p.all)
	})
	return p
}

// Set has a fault at a packet from now on; 0: at none.
func (p *Faulty) Set(at int, kind Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packets, p.at, p.match, p.kind, p.sent = nil, at, nil, kind, ""
}

// SetAt has a fault at the first packet from now on that matches.
func (p *Faulty) SetAt(match func(packet string) bool, kind Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packets, p.at, p.match, p.kind, p.sent = nil, 0, match, kind, ""
}

// Packets returns the packets since Set.
func (p *Faulty) Packets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.packets)
}

// Sent returns the packet that had the fault since Set; empty: none had it.
func (p *Faulty) Sent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// A Cell is one fault at one packet.
type Cell struct {
	Fault Fault
	At    int
	Sent  string // set by Each
}

// String returns the fault and the packet.
func (c Cell) String() string { return fmt.Sprintf("packet %d %s: %.150q", c.At, c.Fault, c.Sent) }

// AllFaults returns every fault at every step-th of the packets.
func AllFaults(packets []string, step int) (cells []Cell) {
	for at := 1; at <= len(packets); at += step {
		for _, f := range faults {
			cells = append(cells, Cell{Fault: f, At: at})
		}
	}
	return cells
}

// SomeFaults returns, for each statement among the packets that is not in seen, a refusal and another fault of one of its packets, one of both in
// short tests, and adds it to seen. Statements with other constants are the same.
func SomeFaults(rnd *rand.Rand, packets []string, seen map[string]bool) (cells []Cell) {
	forms := make(map[string][]int)
	var order []string
	for i, sql := range packets {
		form := constant.ReplaceAllString(sql, "?")
		if seen[form] {
			continue
		}
		if forms[form] == nil {
			order = append(order, form)
		}
		forms[form] = append(forms[form], i+1)
	}
	for _, form := range order {
		seen[form] = true
		kinds := []Fault{Refused, faults[rnd.IntN(len(faults))]}
		if testing.Short() {
			kinds = kinds[rnd.IntN(2):][:1]
		}
		for _, f := range kinds {
			if at := forms[form]; f != Refused || len(cells) == 0 || cells[len(cells)-1].Fault != Refused || !slices.Contains(at, cells[len(cells)-1].At) {
				cells = append(cells, Cell{Fault: f, At: at[rnd.IntN(len(at))]})
			}
		}
	}
	return cells
}

var constant = regexp.MustCompile(`'[^']*'|[0-9]+`)

// Each calls do once for each cell. prepare is called before, without a fault, and check with the result, unless no packet had the fault.
func (p *Faulty) Each(cells []Cell, prepare func(), do func() error, check func(c Cell, err error)) {
	for _, c := range cells {
		prepare()
		p.Set(c.At, c.Fault)
		err := do()
		c.Sent = p.Sent()
		p.Set(0, "")
		if c.Sent != "" {
			check(c, err)
		}
	}
}

// EachFails has an error that is neither a denial nor of something missing in place of each response to do, in turn. do must return it, except
// where a command begins with one of the given texts.
func (p *Faulty) EachFails(tb testing.TB, do func() error, except ...string) {
	tb.Helper()
	p.Set(0, "")
	if err := do(); err != nil {
		tb.Fatalf("without a fault: %v", err)
	}
	usual := p.Packets()
	excepted := func(sent string) bool {
		return slices.ContainsFunc(except, func(begin string) bool { return strings.HasPrefix(sent, begin) })
	}
	for at := 1; ; at++ {
		if at <= len(usual) && (usual[at-1] == "" || excepted(usual[at-1])) {
			continue
		}
		p.Set(at, Failed)
		err := do()
		sent, packets := p.Sent(), p.Packets()
		p.Set(0, "")
		switch {
		case len(packets) == 0:
			tb.Fatal("nothing was sent to the server")
		case len(packets) < at:
			tb.Logf("%d packets", len(packets))
			return
		case sent == "": // of a file, or a ping, after whose failure the connection is opened again
		case excepted(sent):
		case err == nil:
			tb.Errorf("the server failed to execute %q, unnoticed", packets[max(0, at-2):at])
		case !strings.Contains(err.Error(), RefusedText):
			tb.Errorf("the server failed to execute %q: %v", sent, err)
		}
	}
}

// loginPacket stands for a login in Packets.
const loginPacket = "login"

// next returns the fault of the next packet, of which content has what the client sends.
func (p *Faulty) next(content []byte, command bool) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := string(bytes.TrimSpace(content))
	p.packets = append(p.packets, text)
	is := len(p.packets) == p.at
	if p.match != nil {
		is = p.sent == "" && p.match(text)
	}
	if !is || (p.kind == Deadlock || p.kind == Refused) && !command || p.kind == Failed && !command && text != loginPacket {
		return ""
	}
	p.sent = text
	return p.kind
}

// A substitute is the bytes that a client gets in place of the next ones of its server.
type substitute struct {
	instead []byte // nil: a part of them
	closes  bool
}

// responses forwards the responses of a server to a client.
type responses struct {
	client, server net.Conn
	next           atomic.Pointer[substitute]

	expects bool          // a command was sent; used by serve alone
	sent    chan struct{} // has an element if bytes were forwarded since
	ended   chan struct{}
}

// expect is called before a command is sent.
func (r *responses) expect() {
	r.expects = true
	select {
	case <-r.sent:
	default:
	}
}

// wait blocks until the response to the last command has begun.
func (r *responses) wait() {
	if !r.expects {
		return
	}
	select {
	case <-r.sent:
	case <-r.ended:
	}
}

func (r *responses) forward() {
	defer close(r.ended)
	defer r.client.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.server.Read(buf)
		b := buf[:n]
		a := r.next.Swap(nil)
		if a != nil {
			if b = a.instead; b == nil {
				b = buf[:max(n-1, 0)]
			}
		}
		if _, werr := r.client.Write(b); err != nil || werr != nil || a != nil && a.closes {
			return
		}
		select {
		case r.sent <- struct{}{}:
		default:
		}
	}
}

func (p *Faulty) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.backend)
	if err != nil {
		return
	}
	defer server.Close()
	r := &responses{client: client, server: server, sent: make(chan struct{}, 1), ended: make(chan struct{})}
	p.all.Go(r.forward)
	for login, loading := true, false; ; {
		packet, err := readPacket(client)
		if err != nil {
			return
		}
		content, kind := packet[mysqlwire.HeaderLen:], Fault("")
		switch first := packet[3] == 0; {
		case login && !first:
			login = false
			kind = p.next([]byte(loginPacket), false)
		case first && hasResponse(content):
			r.wait() // if the client has sent several commands at once
			login, loading = false, bytes.HasPrefix(content[1:], []byte("LOAD DATA LOCAL"))
			kind = p.next(content[1:], true)
			r.expect()
		case loading && !first: // not COM_QUIT, a command without a response
			kind = p.next([]byte("a part of a file"), false)
		}
		switch kind {
		case LostBefore:
			return
		case Refused, Failed:
			number, state := mysqlwire.Errno(1142), "42000"
			if kind == Failed {
				number, state = 1030, "HY000" // of a storage engine
			}
			if _, err := client.Write(errorPacket(packet[3]+1, number, state, RefusedText)); err != nil {
				return
			}
			r.expects = false
			continue
		case Deadlock:
			r.next.Store(&substitute{instead: errorPacket(1, mysqlwire.ErrnoDeadlock, "40001", "the proxy reports a deadlock")})
			packet = append([]byte{9, 0, 0, 0, byte(mysqlwire.ComQuery)}, "ROLLBACK"...)
		case LostAfter:
			r.next.Store(&substitute{instead: []byte{}, closes: true})
		case LostWithin:
			r.next.Store(&substitute{closes: true})
		case Delayed:
			time.Sleep(50 * time.Millisecond) // paces: a slow response
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
	}
}

// hasResponse reports whether a server responds to a command.
func hasResponse(command []byte) bool {
	if len(command) == 0 {
		return false
	}
	switch mysqlwire.Command(command[0]) {
	case mysqlwire.ComQuit, mysqlwire.ComStmtClose, mysqlwire.ComStmtSendLongData:
		return false
	}
	return true
}

func errorPacket(sequence byte, number mysqlwire.Errno, state, text string) []byte {
	b := append([]byte{0, 0, 0, sequence, 0xff, byte(number), byte(number >> 8), '#'}, state+text...)
	b[0] = byte(len(b) - mysqlwire.HeaderLen)
	return b
}

func readPacket(r io.Reader) ([]byte, error) {
	packet := make([]byte, mysqlwire.HeaderLen)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, err
	}
	n := int(packet[0]) | int(packet[1])<<8 | int(packet[2])<<16
	packet = append(packet, make([]byte, n)...)
	_, err := io.ReadFull(r, packet[mysqlwire.HeaderLen:])
	return packet, err
}
