package netloop

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestInspect inspects tasks in each of their states, and after their end. owned is of the task alone: the race detector
// reports an inspection that runs beside it.
func TestInspect(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			reads, peer := pair(t)
			writes, _ := pair(t)
			waits, _ := pair(t)
			unblock := make(chan struct{})
			var owned [3]int
			tasks := make([]*Task, 3)
			var started sync.WaitGroup
			started.Add(3)
			must(t, g.Go(func(task *Task) {
				defer reads.Close()
				tasks[0] = task
				started.Done()
				buf := make([]byte, 1)
				for {
					owned[0]++
					if _, err := reads.Read(buf); err != nil {
						return
					}
				}
			}, noHangup, reads))
			must(t, g.Go(func(task *Task) {
				defer writes.Close()
				tasks[1] = task
				started.Done()
				for buf := make([]byte, 1<<20); ; owned[1]++ {
					if _, err := writes.Write(buf); err != nil {
						return
					}
				}
			}, noHangup, writes))
			must(t, g.Go(func(task *Task) {
				defer waits.Close()
				tasks[2] = task
				owned[2]++
				started.Done()
				task.Block(func() { <-unblock })
			}, noHangup, waits))
			testwait.Group(t, "the tasks to start", &started)
			var found [3]Suspension
			look := func() (visited int) {
				g.Inspect(tasks, func(i int, s Suspension) {
					visited++
					owned[i]++
					found[i] = s
				})
				return visited
			}
			want := [3]Suspension{{Conn: reads}, {Conn: writes, Write: true}, {Blocked: true}}
			testwait.UntilState(t, "the tasks to wait", func() (string, bool) { return "", look() == 3 && found == want })
			peer.Close()
			must(t, writes.SetWriteDeadline(time.Unix(1, 0)))
			close(unblock)
			testwait.Until(t, "the tasks to end", func() bool { return look() == 0 })
		})
	}
}

// TestInspectBusy inspects tasks that work all the time, more than are visited at once, and while the group closes.
func TestInspectBusy(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			const n = inspectBatch + 3
			counts := make([]int, n)
			tasks := make([]*Task, n)
			peers := make([]io.ReadWriteCloser, n)
			var started, stopped sync.WaitGroup
			for i := range n {
				c, peer := pair(t)
				peers[i] = peer
				started.Add(1)
				must(t, g.Go(func(task *Task) {
					defer c.Close()
					tasks[i] = task
					started.Done()
					buf := make([]byte, 64)
					for {
						k, err := c.Read(buf)
						if err != nil {
							return
						}
						counts[i]++
						if _, err := c.Write(buf[:k]); err != nil {
							return
						}
						counts[i]++
					}
				}, noHangup, c))
			}
			testwait.Group(t, "the tasks to start", &started)
			for _, peer := range peers {
				stopped.Go(func() {
					buf := make([]byte, 1)
					for range 50 {
						if _, err := peer.Write(buf); err != nil {
							t.Error(err)
						}
						if _, err := io.ReadFull(peer, buf); err != nil {
							t.Error(err)
						}
					}
					peer.Close()
				})
			}
			ended := make(chan struct{})
			go func() { stopped.Wait(); close(ended) }()
			for last := make([]int, n); ; {
				g.Inspect(tasks, func(i int, _ Suspension) {
					if counts[i] < last[i] {
						t.Errorf("task %d: %d after %d", i, counts[i], last[i])
					}
					last[i] = counts[i]
				})
				select {
				case <-ended:
				default:
					continue
				}
				break
			}
			testwait.Until(t, "the tasks to end", func() bool {
				left := 0
				g.Inspect(tasks, func(int, Suspension) { left++ })
				return left == 0
			})
			closed := make(chan struct{})
			go func() { defer close(closed); g.Close() }()
			for range 20 {
				g.Inspect(tasks, func(int, Suspension) { t.Error("a task was visited after its end") })
			}
			testwait.Receive(t, "the group to close", closed)
			g.Inspect(tasks, func(int, Suspension) { t.Error("a task was visited after Close") })
		})
	}
}
