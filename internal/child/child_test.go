package child_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/testwait"
)

func TestChildThatIgnoresTheSignalIsKilled(t *testing.T) {
	lines := make(chan struct{}, 1)
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
	c, err := child.Start("a stubborn child", cmd, func([]byte) { lines <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, "the child's first line", lines)
	if err := c.Stop(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want an error that says it was killed", err)
	}
	if err := c.Stop(time.Hour); err != nil {
		t.Errorf("stop of a child that has ended: %v", err)
	}
}

func TestAwait(t *testing.T) {
	c, err := child.Start("a short child", exec.Command("/bin/sh", "-c", "echo no such option; exit 3"), nil)
	if err != nil {
		t.Fatal(err)
	}
	never := func() (bool, error) { return false, nil }
	if err := c.Await(t.Context(), testwait.Limit, never); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v, want the exit status and the output", err)
	}
	c, err = child.Start("a slow child", exec.Command("sleep", "3600"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Await(t.Context(), time.Millisecond, never); err == nil || !strings.Contains(err.Error(), "not ready within") {
		t.Errorf("got %v, want that the child was not ready", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Await(ctx, testwait.Limit, never); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := c.Await(t.Context(), testwait.Limit, func() (bool, error) { return true, nil }); err != nil {
		t.Error(err)
	}
	if err := c.Stop(testwait.Limit); err != nil {
		t.Errorf("a child without a handler ends by the signal: %v", err)
	}
	if _, err := child.Start("nothing", exec.Command("/nowhere"), nil); err == nil {
		t.Error("started a program that is not there")
	}
}
