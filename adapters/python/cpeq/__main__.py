from cpeq.program import main

main()
