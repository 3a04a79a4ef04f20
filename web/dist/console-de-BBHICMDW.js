import{a as p,c as m,sa as o}from"./chunk-AZ36KCC3.js";m(p(o,null),document.getElementById("app"));
