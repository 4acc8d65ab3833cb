// The terminal client `ringside`.
int main() { return 0; }
