module lab/pause

go 1.26
