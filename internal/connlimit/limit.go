package connlimit

import (
	"math"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// OpenFiles returns the process's limit on open files.
func OpenFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

// A Limit counts what is open, such as connections or requests. It is safe for concurrent use.
type Limit struct {
	total, each int

	mu      sync.Mutex
	open    int
	from    map[netip.Addr]int
	refused uint64
}

// New returns a Limit of total, of which one client address may have half.
func New(total int) *Limit {
	return &Limit{total: total, each: max(1, (total+1)/2), from: make(map[netip.Addr]int)}
}

// Acquire counts one more of a client address and reports true, or reports false if a limit is reached. After
// true, the caller calls Release with the same address once.
func (l *Limit) Acquire(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.total || l.from[addr] >= l.each {
		l.refused++
		return false
	}
	l.open++
	l.from[addr]++
	return true
}

// Release undoes a successful Acquire.
func (l *Limit) Release(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[addr] == 0 {
		panic("BUG: connlimit: released more often than acquired")
	}
	l.open--
	if l.from[addr]--; l.from[addr] == 0 {
		delete(l.from, addr)
	}
}

// Stats are the counts of a Limit.
type Stats struct {
	Open, Total, PerAddress int
	Refused                 uint64
}

// Stats returns the current counts.
func (l *Limit) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Open: l.open, Total: l.total, PerAddress: l.each, Refused: l.refused}
}

// Client returns the address for which a client is counted: an IPv4 address, or that of a /64 network of IPv6, since one
// host may use all addresses of its network.
func Client(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if network, err := addr.Prefix(64); err == nil && addr.Is6() {
		return network.Addr()
	}
	return addr
}

// AddressOf returns Client of the IP address in host:port, or the zero Addr, which stands for all clients without one.
func AddressOf(hostport string) netip.Addr {
	at, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return netip.Addr{}
	}
	return Client(at.Addr())
}

// addressOf returns Client of a connection's peer.
func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return Client(tcp.AddrPort().Addr())
}
