module river-cells

go 1.25
