package rowstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestAppendScaled has doubles of columns with a number of digits after the point.
func TestAppendScaled(t *testing.T) {
	for _, tt := range []struct {
		v     float64
		scale int
		want  string
	}{
		{5, 0, "5"},
		{5, 2, "5.00"},
		{1.25, 2, "1.25"},
		{1.5, 3, "1.500"},
		{1.23456, 2, "1.23"},
		{1.23456, 5, "1.23456"},
		{-0.5, 0, "-0"},
		{2.5, 0, "2"},
		{3.5, 0, "4"},
		{0.1, 20, "0.10000000000000000000"},
		{1e22, 1, "10000000000000000000000.0"},
		{1e-7, 3, "0.000"},
		{0, 3, "0.000"},
	} {
		if got := string(appendScaled([]byte("x"), tt.v, tt.scale)); got != "x"+tt.want {
			t.Errorf("%v with %d digits: %s, want x%s", tt.v, tt.scale, got, tt.want)
		}
	}
}

// TestExpiryContexts has calls that end with the view, those that end before it, and the errors of both.
func TestExpiryContexts(t *testing.T) {
	e := NewExpiry(t.Context(), time.Hour, func() { t.Error("the view was cut off") })
	ctx, end := e.During(t.Context())
	if ctx.Err() != nil {
		t.Errorf("a call within the view: %v", ctx.Err())
	}
	end()
	if ctx.Err() == nil {
		t.Error("the context of a call that has returned is open")
	}
	during, endDuring := e.During(t.Context())
	defer endDuring()
	e.Stop()
	testwait.Receive(t, "the call to end with the view", during.Done())
	if err := context.Cause(during); !errors.Is(err, context.Canceled) || errors.Is(err, ErrViewExpired) {
		t.Errorf("a call within a view that is closed: %v", err)
	}
	failed := errors.New("failed")
	if err := e.Explain(failed); !errors.Is(err, failed) || errors.Is(err, ErrViewExpired) {
		t.Errorf("an error within the view: %v", err)
	}

	cut := make(chan struct{})
	e = NewExpiry(t.Context(), time.Nanosecond, func() { close(cut) })
	during, endDuring = e.During(t.Context())
	defer endDuring()
	testwait.Receive(t, "the call to end with the view", during.Done())
	testwait.Receive(t, "the view to be cut off", cut)
	if err := context.Cause(during); !errors.Is(err, ErrViewExpired) {
		t.Errorf("a call of an expired view: %v", err)
	}
	if err := e.Explain(failed); !errors.Is(err, failed) || !errors.Is(err, ErrViewExpired) {
		t.Errorf("an error of an expired view: %v", err)
	}
	if err := e.Explain(nil); err != nil {
		t.Errorf("no error of an expired view: %v", err)
	}
	e.Stop()
}
