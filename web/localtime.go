package web

import (
	"strconv"
	"strings"
	"time"
)

// Times on pages are marked when they are formatted, and become elements that the script shows in the browser's time zone when
// the page is complete: functions that put a time into a sentence need not know HTML. Without the script, and in other forms
// than pages, times are UTC.
//
// A mark is a noncharacter of Unicode, the format, seconds since 1970, and another noncharacter. Characters that are not a mark
// are foreign, and package visible shows them.
const (
	markStart = "\ufdd0"
	markEnd   = "\ufdd1"

	// utc is the name of the time zone in a text of a page.
	utc = markStart + "z" + markEnd

	longestMark = 24 // bytes after the start, the end included
)

// A timeFormat is the format of a time on pages. assets/app.js has the same.
type timeFormat byte

const (
	fullTime   timeFormat = 'm'
	secondTime timeFormat = 's'
	minuteTime timeFormat = 't' // in local time the day at midnight
	dayMinute  timeFormat = 'd'
	dayTime    timeFormat = 'D'
	tickDay    timeFormat = 'a' // a day whose time is not midnight in local time is a minuteTime
	tickDays   timeFormat = 'A' // of days only
)

func (f timeFormat) layout() string {
	switch f {
	case fullTime:
		return time.DateTime
	case secondTime:
		return time.TimeOnly
	case minuteTime:
		return "15:04"
	case dayMinute:
		return "Jan 2 15:04"
	case dayTime:
		return time.DateOnly
	case tickDay, tickDays:
		return "Jan 2"
	}
	return ""
}

// mark returns a marked time.
func (f timeFormat) mark(t time.Time) string {
	return markStart + string(byte(f)) + strconv.FormatInt(t.Unix(), 10) + markEnd
}

// clock formats a time with the precision that suits a range of length of.
func clock(t time.Time, of time.Duration) string {
	switch {
	case of <= 10*time.Minute:
		return secondTime.mark(t)
	case of <= 26*time.Hour:
		return minuteTime.mark(t)
	case of <= 8*24*time.Hour:
		return dayMinute.mark(t)
	}
	return dayTime.mark(t)
}

// exactClock formats a time to the second, with the day if the displayed range has several.
func exactClock(t time.Time, looked time.Duration) string {
	if looked <= 26*time.Hour {
		return secondTime.mark(t)
	}
	return moment(t)
}

// moment formats a time in full.
func moment(t time.Time) string {
	if t.IsZero() {
		return noValue
	}
	return fullTime.mark(t)
}

// plainTimes returns a text with its times in UTC.
func plainTimes(text string) string {
	return replaceMarks(text, func(b *strings.Builder, f timeFormat, t time.Time) { writePlain(b, f, t) })
}

func writePlain(b *strings.Builder, f timeFormat, t time.Time) {
	if f == 'z' {
		b.WriteString("UTC")
		return
	}
	b.WriteString(t.Format(f.layout()))
}

// htmlTimes returns a page with its times as elements: in text as time, in drawings as tspan. In attributes, titles and
// descriptions, which have no elements, they are UTC.
func htmlTimes(page string) string {
	return replaceMarks(page, func(b *strings.Builder, f timeFormat, t time.Time) {
		switch tag := lastTag(b.String()); {
		case tag == "title" || tag == "desc" || tag == "option" || tag == "":
			writePlain(b, f, t)
		case f == 'z':
			b.WriteString(`<span class="zone">UTC</span>`)
		case tag == "text":
			b.WriteString(`<tspan data-utc="` + stamp(t) + `" data-as="` + string(byte(f)) + `">` + t.Format(f.layout()) + `</tspan>`)
		case f == fullTime:
			b.WriteString(`<time datetime="` + stamp(t) + `">` + t.Format(f.layout()) + `</time>`)
		default:
			b.WriteString(`<time datetime="` + stamp(t) + `" data-as="` + string(byte(f)) + `">` + t.Format(f.layout()) + `</time>`)
		}
	})
}

// lastTag returns the name of the last tag of a beginning of a page, "/p" for an end, or "" within a tag.
func lastTag(page string) string {
	open := strings.LastIndexByte(page, '<')
	if open < 0 {
		return "/"
	}
	tag := page[open+1:]
	before, _, ok := strings.Cut(tag, ">")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(before, " ")
	return name
}

// replaceMarks calls write in place of each mark.
func replaceMarks(text string, write func(b *strings.Builder, f timeFormat, t time.Time)) string {
	if !strings.Contains(text, markStart) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) * 3 / 2)
	for {
		before, rest, found := strings.Cut(text, markStart)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.Index(rest[:min(len(rest), longestMark)], markEnd)
		f, t, ok := parseMark(rest[:max(end, 0)])
		if !ok {
			b.WriteString(markStart) // foreign
			text = rest
			continue
		}
		write(&b, f, t)
		text = rest[end+len(markEnd):]
	}
}

// parseMark parses what is between the ends of a mark.
func parseMark(mark string) (f timeFormat, t time.Time, ok bool) {
	if mark == "z" {
		return 'z', t, true
	}
	if mark == "" || timeFormat(mark[0]).layout() == "" {
		return 0, t, false
	}
	n, err := strconv.ParseInt(mark[1:], 10, 64)
	if t = time.Unix(n, 0).UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return 0, t, false
	}
	return timeFormat(mark[0]), t, true
}
