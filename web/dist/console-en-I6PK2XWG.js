import{a as p,c as m,la as o}from"./chunk-IZFI2KXW.js";m(p(o,null),document.getElementById("app"));
