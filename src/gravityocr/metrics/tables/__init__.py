"""What TEDS is made of: markup read forgivingly, the normal form of tables, the distance of trees."""
