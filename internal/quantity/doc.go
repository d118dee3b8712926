// Package quantity writes numbers for terminals: three digits and a unit, thousands in groups.
package quantity
