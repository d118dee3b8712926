package testwait

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A recorder replaces a test whose wait fails.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Fatalf(format string, a ...any) { r.text = fmt.Sprintf(format, a...) }

func TestWaitsFinish(t *testing.T) {
	n := 0
	Until(t, "the third poll", func() bool { n++; return n == 3 })
	if got := Value(t, "a fifth poll", func() int { n++; return n }, func(n int) bool { return n >= 5 }); got != 5 {
		t.Errorf("Value returned %d, want 5", got)
	}
	Equal(t, "a seventh poll", 7, func() int { n++; return n })
	UntilState(t, "a ninth poll", func() (string, bool) { n++; return "", n == 9 })
	if n != 9 {
		t.Errorf("polled %d times, want 9", n)
	}
	full, empty := make(chan string, 1), make(chan string)
	full <- "there"
	go func() { empty <- "later" }()
	if a, b := Receive(t, "a buffered value", full), Receive(t, "a later value", empty); a != "there" || b != "later" {
		t.Errorf("received %q and %q", a, b)
	}
	close(full)
	if v := Receive(t, "the end", full); v != "" {
		t.Errorf("received %q from a closed channel", v)
	}
	var wg sync.WaitGroup
	wg.Go(func() { n = 10 })
	Group(t, "a goroutine", &wg)
	if n != 10 {
		t.Error("Group returned before its goroutine")
	}
}

// TestWaitsFail runs each kind of wait into its deadline.
func TestWaitsFail(t *testing.T) {
	var wg sync.WaitGroup
	wg.Add(1)
	defer wg.Done()
	for want, wait := range map[string]func(waiter){
		"waited 1ms for two sessions; last state: 1 session": func(w waiter) {
			w.until("two sessions", func() (string, bool) { return "1 session", false })
		},
		"waited 1ms for a value": func(w waiter) { receive(w, "a value", make(chan int)) },
		"waited 1ms for workers": func(w waiter) { w.group("workers", &wg) },
	} {
		r := &recorder{TB: t}
		wait(waiter{r, time.Millisecond})
		if first, stacks, _ := strings.Cut(r.text, "\n"); first != want || !strings.Contains(stacks, "TestWaitsFail") {
			t.Errorf("got %.300q, want %q and the stacks", r.text, want)
		}
	}
}
