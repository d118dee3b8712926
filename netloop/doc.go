// Package netloop serves many connections by straight-line code on few threads: event loops of its
// own, beside the runtime's poller.
//
//	group, err := netloop.New(netloop.Options{Loops: 2})
//	client, server := netloop.NewConn(nc1), netloop.NewConn(nc2) // also under crypto/tls
//	err = group.Go(func(t *netloop.Task) {
//		defer client.Close()
//		defer server.Close()
//		for {
//			n, err := client.Read(buf) // suspends the task, not a thread
//			...
//			t.Block(func() { ... }) // whatever waits for other things
//		}
//	}, hungUp, client, server)
//
// # Terms
//
// A task is a function that a loop runs as a coroutine (iter.Pull): it is suspended where its
// connections are not ready, and resumed where it stopped. A turn is the loop's work between two waits.
// A connection is on a loop between Go or Attach and Close or Detach; before and after, it is the
// net.Conn that it was made of.
//
// # Data flow
//
//	epoll ──events──► loop ──resume──► task ──Read, Write──► socket
//	                   ▲  ▲              │
//	 deadlines, Go ────┘  └── eventfd ◄──┴─ Block: an ordinary goroutine
//
// Each loop is a goroutine with an epoll instance, in which a descriptor is registered once, for both
// directions and hang-ups, edge-triggered. A task reads only after an event, until a read is short:
// almost no read finds nothing. Writes are made at once, and wait for an event only when the socket is
// full. An event carries the slot of its connection and the slot's generation, so that it never reaches
// another connection by the descriptor's number.
//
// # Contract
//
//   - A connection on a loop is used by its task alone. Deadlines may be set by any goroutine, and one in
//     the past interrupts. Used elsewhere, as within Block, Read and Write panic.
//   - A task must not wait for anything but its connections: not for a channel, a file or a lock that is
//     held for long. Block does that. A task that computes for long calls Yield, or computes in Block.
//   - After 256 KiB of reads and writes, where each call counts at least 4 KiB, other tasks have their
//     turn: a task that streams delays its neighbours by no more work than that. Spend counts other work.
//   - hungUp reports that a peer has closed its side, even if the task is waiting for another connection.
//   - A panic ends its task alone and is reported, as runtime.Goexit is not.
//
// # Cost
//
// A wait for a connection is two switches of coroutines; reads and writes do not allocate.
// The scheduler is involved only when a loop has nothing to do. An idle task holds the stack of its
// coroutine, at least 2 KiB, and 0.5 KiB besides.
//
// New raises GOMAXPROCS above the number of loops. A busy loop goes through the scheduler every 5 ms;
// otherwise the runtime takes its processor for stuck, and takes it away in each of its waits.
//
// # Limits
//
// Loops exist on Linux, amd64 and arm64. Elsewhere, with no loops, and for connections without a
// descriptor, a task is an ordinary goroutine on the runtime's poller: everything above holds but for
// hungUp, which is not called, and the bound on work, which is the scheduler's.
package netloop
