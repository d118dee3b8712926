package activeseries_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/taredb/tare/fleet/activeseries"
)

func ExampleMerger() {
	m := activeseries.NewMerger(activeseries.MergerOptions{Workers: 2})
	b := m.Merge([]activeseries.Source{
		{Shard: "1_of_2", Body: io.NopCloser(strings.NewReader(`{"data":[{"__name__":"up","job":"a"}]}`))},
		{Shard: "2_of_2", Body: io.NopCloser(strings.NewReader(`{"status":"success","data":[{"__name__":"up","job":"b"}]}`))},
	}, activeseries.Request{})
	_, err := b.WriteTo(os.Stdout)
	if err = errors.Join(err, b.Close()); err != nil {
		fmt.Println(err)
	}
	// Output: {"data":[{"__name__":"up","job":"a"},{"__name__":"up","job":"b"}]}
}

func ExampleMerger_countBy() {
	m := activeseries.NewMerger(activeseries.MergerOptions{Workers: 2})
	b := m.Merge([]activeseries.Source{
		{Shard: "1_of_2", Body: io.NopCloser(strings.NewReader(`{"data":[{"__name__":"up","job":"a"},{"__name__":"down","job":"a"}]}`))},
		{Shard: "2_of_2", Body: io.NopCloser(strings.NewReader(`{"data":[{"__name__":"up","job":"b"},{"job":"a","__count__":"40"}]}`)), Counts: true},
	}, activeseries.Request{CountBy: "job", CountBytes: 1 << 20})
	_, err := b.WriteTo(os.Stdout)
	if err = errors.Join(err, b.Close()); err != nil {
		fmt.Println(err)
	}
	// Output: {"data":[{"job":"a","__count__":"42"},{"job":"b","__count__":"1"}]}
}

func ExampleScanner() {
	var s activeseries.Scanner
	s.Reset(strings.NewReader(`{"data":[{"__name__":"up"},{"__name__":"go_threads"}{"__name__":"lost"}]}`))
	for {
		items, n, err := s.Next()
		var wrong *activeseries.Error
		if errors.As(err, &wrong) {
			fmt.Println(wrong.Fault, wrong)
		}
		if err != nil {
			return
		}
		fmt.Printf("%d items: %s\n", n, items)
	}
	// Output:
	// 2 items: ,{"__name__":"up"},{"__name__":"go_threads"}
	// syntax at byte 52: unexpected byte
}

func ExampleLabels() {
	for name, value := range activeseries.Labels([]byte(`{"__name__":"up","job":"a"}`)) {
		fmt.Printf("%s is %s\n", name, value)
	}
	// Output:
	// "__name__" is "up"
	// "job" is "a"
}

func ExampleTracker() {
	start := time.Unix(1_700_000_000, 0)
	t, err := activeseries.NewTracker(start, activeseries.TrackerOptions{Idle: 20 * time.Minute, Matchers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for minute := range 30 {
		now := t.Moment(start.Add(time.Duration(minute) * time.Minute))
		for series := range activeseries.Key(3) {
			if series == 2 && minute > 5 {
				continue // the series has ended
			}
			if !t.Update(series, now) {
				if err := t.Add(series, now, []uint16{uint16(series % 2)}); err != nil {
					fmt.Println(err)
				}
			}
		}
		t.Sweep(now)
	}
	matching := make([]int64, 2)
	all := t.Counts(matching)
	fmt.Println(all, "live, by matcher", matching)
	// Output: 2 live, by matcher [1 1]
}
