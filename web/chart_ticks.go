package web

import "time"

// A tick is a label of an axis.
type tick struct {
	at   float64 // 0 at the left or bottom of the drawing, 1 at the right or top
	text string
}

// maxTicks is the largest number of labels of an axis of time.
const maxTicks = 7

// tickSteps are the distances between the labels of an axis of time. Longer ones are multiples of the last.
var tickSteps = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour,
}

// tickStep returns the least distance between labels at which no more than maxTicks fit into length.
func tickStep(length time.Duration) time.Duration {
	for _, step := range tickSteps {
		if length <= maxTicks*step {
			return step
		}
	}
	week := tickSteps[len(tickSteps)-1]
	return (length/(maxTicks*week) + 1) * week
}

// timeTicks labels round times between from and to, in UTC. Where days change, a label is the day.
func timeTicks(from, to time.Time) []tick {
	from, to = from.UTC(), to.UTC()
	length := to.Sub(from)
	if length <= 0 {
		return nil
	}
	step := tickStep(length)
	var ticks []tick
	for t := from.Truncate(step); !t.After(to); t = t.Add(step) {
		if t.Before(from) {
			continue
		}
		ticks = append(ticks, tick{float64(t.Sub(from)) / float64(length), tickText(t, step, length)})
	}
	return ticks
}

func tickText(t time.Time, step, length time.Duration) string {
	midnight := t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0
	switch {
	case length > 366*24*time.Hour:
		return t.Format(time.DateOnly)
	case midnight && length > 6*time.Hour:
		return t.Format("Jan 2")
	case step < time.Minute:
		return t.Format(time.TimeOnly)
	}
	return t.Format("15:04")
}
