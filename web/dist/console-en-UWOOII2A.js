import{a as p,c as m,la as o}from"./chunk-RAHNANW7.js";m(p(o,null),document.getElementById("app"));
