//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// gatewayUnderLoad starts a gateway with a history, and clients that use it.
func gatewayUnderLoad(t *testing.T) *tare {
	t.Helper()
	bucket := t.TempDir()
	p := startTare(t, mariadb.Addr, "--bucket", "file://"+bucket, "--history-interval", "1s", "--history-labels", "instance=e2e")
	schema := newSchema(t, mariadb, "pages")
	db := open(t, p.addr, schema)
	_, err := db.Exec("create table goods (id int primary key, name varchar(40), price int)")
	must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var clients sync.WaitGroup
	t.Cleanup(func() {
		stop()
		testwait.Group(t, "the clients to stop", &clients)
	})
	begun := make(chan struct{})
	clients.Go(func() {
		work(ctx, db, func() { close(begun) })
	})
	testwait.Receive(t, "the first statement of the load", begun)
	// The history has the data of the pages from here on.
	eventually(t, "in the history", func() bool {
		v, ok := promValue(t, p, `count(tare_queries_total{digest!~"other|evicted"})`)
		return ok && v >= 6
	})
	return p
}

// work runs the clients' statements, a round in about 20 ms. begun is called after a few rounds.
func work(ctx context.Context, db *sql.DB, begun func()) {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for n := 0; ; n++ {
		for _, text := range []string{
			fmt.Sprintf("replace into goods values (%d, 'thing %d', %d)", n%50, n, n%7),
			fmt.Sprintf("select name, price from goods where id = %d", n%50),
			"select count(*), price from goods group by price",
			fmt.Sprintf("update goods set price = price + 1 where id in (%d, %d)", n%50, n%49),
			"select sleep(0.003)",
			"select * from there_is_no_such_table",
			fmt.Sprintf("delete from goods where id = %d", n%60),
		} {
			rows, err := db.QueryContext(ctx, text)
			if err != nil {
				continue // one of them fails deliberately
			}
			for rows.Next() {
				continue // the rows do not matter
			}
			rows.Close()
		}
		if n == 5 {
			begun()
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// gatewayPages are expressions that are true on each page of a gateway with data. Pages that are only in the
// navigation are visited too.
var gatewayPages = []struct {
	path  string
	shows []string
}{
	{"/", []string{
		`document.querySelectorAll("table.rows tbody tr").length >= 5`,
		`document.querySelectorAll("dl.figures dd").length >= 4`,
		`document.querySelector("main").innerText.includes("goods")`,
	}},
	{"/queries", []string{
		`document.querySelectorAll("table.queries tbody tr").length >= 6`,
		`document.querySelector("th[aria-sort]") !== null`,
		`document.querySelector("main").innerText.includes("SLEEP") || document.querySelector("main").innerText.includes("sleep")`,
	}},
}

// navigation returns the pages that a server's pages link to.
func navigation(t *testing.T, tb *tab) []string {
	t.Helper()
	return eval[[]string](t, tb, `Array.from(document.querySelectorAll("nav[aria-label=Pages] a"), (a) => new URL(a.href).pathname)`)
}

// look visits a page in light and dark, wide and narrow, and runs all checks.
func look(t *testing.T, b *browser, base, path string, shows ...string) {
	t.Helper()
	tb := b.open(t, base)
	for _, c := range []struct {
		colours       string
		width, height int64
	}{{"light", 1280, 900}, {"dark", 1280, 900}, {"light", 390, 844}, {"dark", 390, 844}, {"dark", 360, 740}} {
		where := fmt.Sprintf("%s, %s, %d wide", path, c.colours, c.width)
		tb.prefers(t, c.colours)
		tb.size(t, c.width, c.height)
		tb.visit(t, path)
		for _, s := range shows {
			tb.until(t, "shown on "+where, s)
		}
		if over := eval[float64](t, tb, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
			t.Errorf("%s: the page is %v pixels wider than the window", where, over)
		}
		if cut := eval[[]string](t, tb, `Array.from(document.querySelectorAll("table.rows tbody td:not(.statement)")).filter((e) => e.checkVisibility() && (e.scrollWidth > e.clientWidth || e.getBoundingClientRect().right > e.closest("table").parentElement.getBoundingClientRect().right + 1)).map((e) => e.innerText)`); len(cut) > 0 {
			t.Errorf("%s: values that are cut: %q", where, cut)
		}
		tb.run(t, evalTask(`document.querySelector("#live-pause")?.click()`)) // the page must not change during the checks
		tb.accessible(t, b, where)
	}
	for _, f := range htmlFaults(tb.source(t)) {
		t.Errorf("%s: %s", path, f)
	}
}

// TestPages visits every page of a gateway under load.
func TestPages(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.visit(t, "/")
	paths := navigation(t, tb)
	shows := make(map[string][]string)
	for _, page := range gatewayPages {
		shows[page.path] = page.shows
		if !strings.Contains(strings.Join(paths, " ")+" ", page.path+" ") {
			t.Errorf("nothing leads to %s: %v", page.path, paths)
		}
	}
	tb.visit(t, "/queries?filter=sleep")
	paths = append(paths, eval[string](t, tb, `(({pathname, search}) => pathname + search)(new URL(document.querySelector("table.queries tbody a").href))`))
	paths = append(paths, strings.Replace(paths[len(paths)-1], "/query/", "/incident/", 1), "/promql?query="+url.QueryEscape("rate(tare_queries_total[1m])"))
	for _, path := range paths {
		t.Run(strings.Trim(strings.SplitN(path, "?", 2)[0], "/")+"/", func(t *testing.T) {
			look(t, b, p.http, path, append(shows[path], `document.querySelector("main h1") !== null`)...)
		})
	}
}

// TestQueriesPage sorts, filters, selects a time range and navigates by keys, with scripts.
func TestQueriesPage(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.size(t, 1280, 900)
	tb.visit(t, "/queries?from=now-15m")
	rows := `document.querySelectorAll("table.queries tbody tr").length`
	all := eval[int](t, tb, rows)

	// Sorting, without a new page.
	tb.run(t, evalTask(`window.same = true, Array.from(document.querySelectorAll("table.queries th a")).find((a) => a.textContent.startsWith("p99")).click()`))
	tb.until(t, "sorted by p99", `document.querySelector("th[aria-sort=descending]")?.textContent.includes("p99") && window.same && new URL(location.href).searchParams.has("from")`)
	tb.run(t, evalTask(`document.querySelector("th[aria-sort] a").click()`))
	tb.until(t, "sorted the other way round", `document.querySelector("th[aria-sort=ascending]") !== null`)

	// Filtering while typing.
	tb.run(t, keys("/"))
	tb.until(t, "in the filter", `document.activeElement.matches("[data-filter]")`)
	tb.run(t, evalTask(`document.activeElement.value = ""`), keys("sleep")) // the protocol types the / too
	tb.until(t, "filtered", rows+` === 1 && new URL(location.href).searchParams.get("filter") === "sleep"`)
	// Earlier choices persist: in the address, and in the links to other time ranges.
	if !eval[bool](t, tb, `new URL(location.href).searchParams.get("sort") === "p99" && new URL(location.href).searchParams.get("order") === "asc"`) {
		t.Errorf("the filter forgot the order: %s", eval[string](t, tb, `location.search`))
	}
	for _, link := range []string{`document.querySelector(".presets a").href`, `new URL(document.querySelector("form.range [data-link]").dataset.link, location.href).href`} {
		if kept := eval[string](t, tb, link); !strings.Contains(kept, "filter=sleep") || !strings.Contains(kept, "sort=p99") {
			t.Errorf("another time is at %s", kept)
		}
	}
	if all < 6 {
		t.Errorf("%d rows without a filter", all)
	}

	// Keys: past the navigation, a row, the time range, help.
	tb.visit(t, "/queries?from=now-15m")
	tb.run(t, keys(kb.Tab))
	tb.until(t, "at the first thing that takes keys", `document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().left >= 0`)
	tb.run(t, keys(kb.Enter))
	tb.until(t, "past the navigation", `document.activeElement.id === "main"`)
	tb.run(t, keys(kb.Tab))
	tb.until(t, "at the filter", `document.activeElement.matches("[data-filter]")`)
	tb.visit(t, "/queries?from=now-15m")
	tb.run(t, keys("jj"))
	tb.until(t, "at the second row", `document.querySelectorAll("table.queries tbody tr")[1].classList.contains("at") && document.querySelectorAll("table.queries tbody tr")[1].contains(document.activeElement)`)
	tb.run(t, keys("t"))
	tb.until(t, "in the time range", `document.activeElement.name === "from"`)
	tb.run(t, evalTask(`document.activeElement.blur()`), keys("?"))
	tb.until(t, "helped", `document.querySelector("dialog[open]") !== null`)
	tb.accessible(t, b, "the list of keys")
	tb.run(t, evalTask(`document.querySelector("dialog[open] button").click()`), keys("go"))
	tb.until(t, "on the overview", `location.pathname === "/"`)

	// A statement, and the PromQL of its charts.
	tb.visit(t, "/queries?filter=goods")
	tb.run(t, evalTask(`document.querySelector("table.queries tbody a").click()`))
	tb.until(t, "on the page of a statement", `location.pathname.startsWith("/query/") && document.querySelectorAll("main svg").length > 1`)
	promql := eval[[]string](t, tb, `Array.from(document.querySelectorAll(".copybox code"), (c) => c.textContent).filter((c) => c.includes("tare_"))`)
	if len(promql) == 0 {
		t.Error("there is no PromQL behind the charts")
	}
	for _, q := range promql {
		resp, err := http.Get(p.http + "/api/v1/query?query=" + url.QueryEscape(q))
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the PromQL of a chart is answered %s: %s", resp.Status, q)
		}
	}
}

// TestTimeInURL checks that a link reproduces the view, and that an invalid time is reported.
func TestTimeInURL(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.visit(t, "/queries?from=now-5m")
	if from := eval[string](t, tb, `document.querySelector("form.range [name=from]").value`); from != "now-5m" {
		t.Errorf("from is %q", from)
	}
	tb.run(t, evalTask(`Array.from(document.querySelectorAll("form.range a")).find((a) => a.textContent === "Link to this time").click()`))
	tb.until(t, "at a moment", `/^\d{4}-.*Z$/.test(new URL(location.href).searchParams.get("from")) && /^\d{4}-.*Z$/.test(new URL(location.href).searchParams.get("to"))`)
	tb.until(t, "rows at that moment", `document.querySelectorAll("table.queries tbody tr").length >= 6`)
	was := eval[string](t, tb, `location.href`)
	tb.visit(t, was)
	if says := eval[string](t, tb, `document.querySelector("form.range [name=from]").value`); !strings.Contains(was, url.QueryEscape(says)) {
		t.Errorf("%s shows from %q", was, says)
	}
	tb.expect("answers 400")
	tb.expect("status of 400")
	tb.visit(t, "/queries?from=yesterday")
	tb.until(t, "told", `document.querySelector("main").innerText.includes("alformed time")`)
	tb.accessible(t, b, "a time that is none")
}

// TestTimeInChart selects a time range with the mouse.
func TestTimeInChart(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.size(t, 1280, 900)
	tb.visit(t, "/?from=now-5m")
	tb.until(t, "drawn", `document.querySelector("#rate .choosable > svg") !== null`)
	const inner = `[...document.querySelectorAll("#rate .numbers tbody tr[data-at]")].map((r) => Number(r.dataset.at) / 1000).filter((x) => x < 0.99)`
	tb.until(t, "two rows of numbers within the plot", inner+`.length > 1`)
	tb.run(t, evalTask(`document.querySelector("#rate").scrollIntoView(), document.querySelector("#follow").click()`))
	box := eval[map[string]float64](t, tb, `(({left, top, width, height}) => ({left, top, width, height}))(document.querySelector("#rate .plot > svg").getBoundingClientRect())`)
	y := box["top"] + box["height"]/2
	at := func(f float64) float64 { return box["left"] + f*box["width"] }
	// The cursor is at the row of numbers that is nearest to the pointer: the pointer is placed on one.
	row := eval[float64](t, tb, inner+`.at(-1)`) // of the plot's width
	tb.run(t, input.DispatchMouseEvent(input.MouseMoved, at(row), y))
	tb.until(t, "read", `!document.querySelector("#rate .reading").hidden`)
	if got := eval[float64](t, tb, `document.querySelector("#rate .reading").getBoundingClientRect().left`); math.Abs(got-at(row)) > 2 {
		t.Errorf("the cursor is at %.1f px, the pointer at %.1f", got, at(row))
	}
	tb.run(t,
		input.DispatchMouseEvent(input.MousePressed, at(0.75), y).WithButton(input.Left).WithClickCount(1),
		input.DispatchMouseEvent(input.MouseMoved, at(0.5), y).WithButton(input.Left),
	)
	tb.until(t, "marked", `Math.abs(document.querySelector("#rate .band").getBoundingClientRect().width / document.querySelector("#rate .plot > svg").getBoundingClientRect().width - 0.25) < 0.02`)
	near := func(what, edge string, f float64) {
		t.Helper()
		got := eval[float64](t, tb, `document.querySelector("#rate .`+what+`").getBoundingClientRect().`+edge)
		if got < at(f)-2 || got > at(f)+2 {
			t.Errorf("the %s edge of the %s is at %.1f px, the pointer at %.1f", edge, what, got, at(f))
		}
	}
	near("band", "left", 0.5)
	near("band", "right", 0.75)
	length := eval[float64](t, tb, `(({from, to}) => to - from)(document.querySelector("#rate .plot").dataset)`)
	tb.run(t, input.DispatchMouseEvent(input.MouseReleased, at(0.5), y).WithButton(input.Left).WithClickCount(1))
	tb.until(t, "at that time", `/Z$/.test(new URL(location.href).searchParams.get("from"))`)
	chosen := eval[float64](t, tb, `(Date.parse(new URL(location.href).searchParams.get("to")) - Date.parse(new URL(location.href).searchParams.get("from"))) / 1000`)
	if chosen < length/4-3 || chosen > length/4+3 {
		t.Errorf("%v seconds of %v were chosen, want a quarter", chosen, length)
	}
}

// TestLocalTimes shows the pages in another time zone: every time is local until UTC is chosen, which the browser keeps; a time
// that is entered is local, too; without scripts times are UTC.
func TestLocalTimes(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.size(t, 1280, 900)
	tb.run(t, emulation.SetTimezoneOverride("Asia/Kathmandu")) // 5:45 ahead of UTC, all year
	tb.visit(t, "/?from=now-5m")
	const shown = `Array.from(document.querySelectorAll("main time, footer time, tspan[data-utc]"), (e) => e.textContent + "|" + (e.dataset.utc || e.getAttribute("datetime")) + "|" + (e.dataset.as || "m"))`
	check := func(ahead time.Duration, zone string) {
		t.Helper()
		all := eval[[]string](t, tb, shown)
		if len(all) < 20 {
			t.Errorf("%d times on the page", len(all))
		}
		layouts := map[string]string{"m": time.DateTime, "s": time.TimeOnly, "t": "15:04", "d": "Jan 2 15:04", "D": time.DateOnly}
		for _, one := range all {
			part := strings.Split(one, "|")
			at, err := time.Parse(time.RFC3339, part[1])
			must(t, err)
			want := at.Add(ahead).Format(layouts[part[2]])
			if day := at.Add(ahead).Format("Jan 2"); part[0] != want && part[0] != day {
				t.Errorf("%s is shown as %s, want %s", part[1], part[0], want)
			}
		}
		for _, got := range eval[[]string](t, tb, `Array.from(document.querySelectorAll(".zone"), (e) => e.textContent)`) {
			if got != zone {
				t.Errorf("the zone is %q, want %q", got, zone)
			}
		}
	}
	const ahead = 5*time.Hour + 45*time.Minute
	check(ahead, "GMT+5:45")
	tb.run(t, evalTask(`document.querySelector("form.range [name=from]").value = "2026-01-31 10:00", document.querySelector("form.range [name=to]").value = "2026-01-31 11:00", document.querySelector("form.range button").click()`))
	tb.until(t, "at the local time", `new URL(location.href).searchParams.get("from") === "2026-01-31T04:15:00Z" && document.readyState === "complete"`)
	tb.visit(t, "/?from=now-5m")
	tb.run(t, evalTask(`document.querySelector("#zone").click()`))
	check(0, "UTC")
	tb.visit(t, "/queries?from=now-5m")
	tb.until(t, "still UTC", `document.querySelector("#zone-name").textContent === "UTC"`)
	tb.visit(t, "/?from=now-5m")
	check(0, "UTC")
	tb.run(t, evalTask(`document.querySelector("#zone").click()`))
	check(ahead, "GMT+5:45")
	tb.accessible(t, b, "local times")
	tb.scripts(t, false)
	tb.visit(t, "/?from=now-5m")
	check(0, "UTC")
}

// TestPromQLCompletion types an expression: functions, metrics, labels and values are offered as the API has them.
func TestPromQLCompletion(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.visit(t, "/promql")
	offers := func(text string, want ...string) {
		t.Helper()
		tb.run(t, evalTask(fmt.Sprintf(`((f) => (f.value = %q, f.dispatchEvent(new Event("input", {bubbles: true}))))(document.querySelector("#query"))`, text)))
		for _, w := range want {
			tb.until(t, w+" after "+text, fmt.Sprintf(`Array.from(document.querySelectorAll("#promql-words option"), (o) => o.value).includes(%q)`, w))
		}
	}
	offers("hist", "histogram_quantile(")
	offers("sum(ra", "sum(rate(")
	offers("sum(rate(tare_quer", "sum(rate(tare_queries_total")
	offers("rate(tare_queries_total{", "rate(tare_queries_total{digest=\"", "rate(tare_queries_total{instance=\"")
	offers(`tare_queries_total{user="x", inst`, `tare_queries_total{user="x", instance="`)
	offers(`tare_queries_total{instance="e`, `tare_queries_total{instance="e2e"`)
	offers(`{instance=~"e`, `{instance=~"e2e"`)
	offers(`tare_queries_total{instance="(["`) // not a pattern
	tb.run(t, evalTask(`document.querySelector("#query").value = "count(tare_queries_total)", document.querySelector("form.filter button").click()`))
	tb.until(t, "drawn", `document.querySelectorAll("table.listed tbody tr").length === 1`)
}

// TestColours checks that the button cycles through the choices, and that the choice is stored.
func TestColours(t *testing.T) {
	b := startBrowser(t)
	p := startTare(t, mariadb.Addr)
	tb := b.open(t, p.http)
	tb.prefers(t, "light")
	tb.visit(t, "/")
	background := func() string {
		return eval[string](t, tb, `getComputedStyle(document.documentElement).backgroundColor`)
	}
	light := background()
	for range 2 {
		tb.run(t, evalTask(`document.querySelector("#theme").click()`))
	}
	tb.until(t, "dark", `document.documentElement.dataset.theme === "dark"`)
	dark := background()
	if dark == light {
		t.Errorf("dark and light are both %s", light)
	}
	tb.visit(t, "/")
	if got := background(); got != dark {
		t.Errorf("after a reload the background is %s, want %s", got, dark)
	}
	tb.run(t, evalTask(`document.querySelector("#theme").click()`))
	tb.prefers(t, "dark")
	tb.until(t, "as the system has it", fmt.Sprintf(`getComputedStyle(document.documentElement).backgroundColor === %q`, dark))
}

// TestWithoutScripts checks that tables, sorting and filters work without scripts.
func TestWithoutScripts(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.scripts(t, false)
	tb.visit(t, "/queries?filter=goods")
	if n := eval[int](t, tb, `document.querySelectorAll("table.queries tbody tr").length`); n < 4 || n > 6 {
		t.Errorf("%d rows with a filter", n)
	}
	if n := eval[int](t, tb, `Array.from(document.querySelectorAll("[data-scripted]")).filter((e) => e.offsetParent !== null).length`); n != 0 {
		t.Errorf("%d tools that need scripts are shown", n)
	}
	link := eval[string](t, tb, `Array.from(document.querySelectorAll("table.queries th a")).find((a) => a.textContent.startsWith("p99")).href`)
	tb.visit(t, link)
	if !eval[bool](t, tb, `document.querySelector("th[aria-sort=descending]").textContent.includes("p99")`) {
		t.Errorf("%s is not sorted", link)
	}
}

// TestTablesWithoutScripts visits every page: its content is available without scripts, except the live
// stream, whose page says so.
func TestTablesWithoutScripts(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.scripts(t, false)
	tb.visit(t, "/queries?filter=sleep")
	paths := append(navigation(t, tb), eval[string](t, tb, `new URL(document.querySelector("table.queries tbody a").href).pathname`))
	if len(paths) < 9 {
		t.Errorf("only %v", paths)
	}
	for _, path := range paths {
		tb.visit(t, path)
		shown := eval[int](t, tb, `Array.from(document.querySelectorAll("main table tbody tr, main dl.figures dd, main li")).filter((e) => e.checkVisibility()).length`)
		reported := eval[bool](t, tb, `document.querySelector("main noscript")?.checkVisibility() ?? false`)
		if shown == 0 && !reported && path != "/copies" || reported != (path == "/live") {
			t.Errorf("%s shows %d figures, rows and items; says that it needs scripts: %v", path, shown, reported)
		}
		if eval[bool](t, tb, `Array.from(document.querySelectorAll("[data-scripted]")).some((e) => e.checkVisibility())`) {
			t.Errorf("%s shows tools that need scripts", path)
		}
		// A chart's numbers open without scripts.
		if closed := eval[int](t, tb, `((all) => all.filter((d) => (d.open = true, !d.querySelector("td")?.checkVisibility())).length)(Array.from(document.querySelectorAll("figure details.numbers")))`); closed > 0 {
			t.Errorf("%s: %d charts have no numbers", path, closed)
		}
	}
}

// TestOtherPages visits every page of a store, of a frontend and of a row server.
func TestOtherPages(t *testing.T) {
	b := startBrowser(t)
	bucket := t.TempDir()
	_, err := testblock.Shape{Count: 100, Samples: 50}.Write(bucket, testblock.Options{External: map[string]string{"cluster": "eu"}})
	must(t, err)
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"__name__":"up","job":"a"}]}`)
	}))
	t.Cleanup(downstream.Close)
	for name, args := range map[string][]string{
		"store":     {"--bucket", "file://" + bucket, "--grpc", "off", "--data-dir", t.TempDir()},
		"frontend":  {"--downstream", downstream.URL},
		"rowstream": {"--from", "mysql://app:" + testmysql.Password + "@" + mariadb.Addr, "--listen", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, append([]string{name, "--http", "127.0.0.1:0", "--diag-format", "json"}, args...))
			eventually(t, "ready", func() bool {
				code, _ := get(t, p.http+"/-/ready")
				return code == http.StatusOK
			})
			get(t, p.http+"/api/v1/cardinality/active_series?selector=up")
			tb := b.open(t, p.http)
			tb.visit(t, "/")
			for _, path := range navigation(t, tb) {
				t.Run(strings.Trim(path, "/")+"/", func(t *testing.T) { look(t, b, p.http, path, `document.querySelector("main h1") !== null`) })
			}
		})
	}
}
