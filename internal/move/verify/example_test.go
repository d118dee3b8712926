package verify_test

import (
	"fmt"

	"github.com/taredb/tare/internal/move/verify"
)

// Prints the rows that differ. copier.Run returns such reports if copier.Options.Verify is set.
func ExampleReport() {
	report := verify.Report{
		Of: 4, Chunks: 4, Rows: 1000, Missing: 1, Changed: 1,
		Different: []verify.ChunkMismatch{{Chunk: 2, Rows: []verify.RowMismatch{
			{Key: []string{"512"}, Kind: verify.RowMissing},
			{Key: []string{"640"}, Kind: verify.RowChanged},
		}}},
	}
	fmt.Printf("%d of %d chunks compared, %d rows differ\n", report.Compared(), report.Of, report.Mismatches())
	for _, chunk := range report.Different {
		for _, row := range chunk.Rows {
			fmt.Println(row.Key, row.Kind)
		}
	}
	// Output:
	// 4 of 4 chunks compared, 2 rows differ
	// [512] missing
	// [640] changed
}
