package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const perfText = `# started on Wed Mar  4 05:06:07 2026

2200,,raw_syscalls:sys_enter,2000000000,100.00,,
150,,context-switches,2000000000,100.00,75.000,/sec
<not counted>,,cpu-migrations,0,100.00,,
<not supported>,,instructions:u,0,100.00,,
14000000,,instructions:k,2000000000,100.00,0.43,insn per cycle
1100,,syscalls:sys_enter_read,2000000000,100.00,,
1000,,syscalls:sys_enter_write,2000000000,100.00,,
2,,syscalls:sys_enter_futex,2000000000,100.00,,
`

const straceText = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.060000          60      1000           write
 39.00    0.039000          37      1040        40 read
  1.00    0.001000         250         4           accept4
------ ----------- ----------- --------- --------- ----------------
100.00    0.100000          48      2044        40 total
`

func TestCounts(t *testing.T) {
	calls, err := parseStrace(straceText, 500)
	if err != nil {
		t.Fatal(err)
	}
	counts := []count{
		{workload: "oltp_point_select", threads: 8, by: byTare, perf: parsePerf(perfText, 500), voluntary: 0.1, involuntary: 0.2, calls: calls},
		{workload: "oltp_point_select", threads: 8, by: byHAProxy, voluntary: 0.3, involuntary: 0.4, calls: calls[:2]},
	}
	want := `| workload          | threads | by      | switches/query | voluntary | forced | migrations | instructions/query: user | kernel | system calls/query          | the same under strace                     |
| ---               | ---     | ---     | ---:           | ---:      | ---:   | ---:       | ---:                     | ---:   | ---                         | ---                                       |
| oltp_point_select | 8       | tare    | 0.300          | 0.100     | 0.200  | –          | –                        | 28000  | 4.40: read 2.20, write 2.00 | 4.09: read 2.08, write 2.00, accept4 0.01 |
| oltp_point_select | 8       | haproxy | –              | 0.300     | 0.400  | –          | –                        | –      | –                           | 4.08: read 2.08, write 2.00               |
`
	if diff := cmp.Diff(want, written(t, writeCounts, counts)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if _, err := parseStrace("strace: nothing\n", 500); err == nil {
		t.Error("accepted a table without system calls")
	}
}
